//! Steps of a layer that traverse memory once. Built from candle's own differentiable operations, each would take five
//! to eight passes forward and some twenty backward, and the processor would spend most of a training step in them.
//!
//! - [`causal`]: softmax over the past.
//! - [`gated`]: the gate of SwiGLU.
//! - [`norm`]: a row scaled to the length √n, where n is the number of its elements.
//! - [`rotary`]: positions as angles.
//!
//! All take contiguous tensors of `f32` and work row by row of the last dimension.

pub mod causal;
pub mod gated;
pub mod norm;
pub mod rotary;

use candle_core::{CpuStorage, Layout, Result};

/// Returns the numbers of a tensor.
fn numbers<'s>(storage: &'s CpuStorage, layout: &Layout) -> Result<&'s [f32]> {
    let values = storage.as_slice::<f32>()?;
    let range = layout
        .contiguous_offsets()
        .and_then(|(start, end)| values.get(start..end));
    match range {
        Some(values) => Ok(values),
        None => candle_core::bail!("a fused operation needs a contiguous tensor"),
    }
}

/// Returns the length of the rows of a tensor; at least 1, so that the tensor can be cut into rows.
fn width(layout: &Layout) -> usize {
    layout.dims().last().copied().unwrap_or(1).max(1)
}
