//! An allreduce inside a candle model, on the CPU (feature `candle`).
//!
//! A layer whose weights are cut over the ranks ends in `hidden.apply_op1(op.clone())`; its gradient goes back through
//! this operation. It is the `g` of Megatron-LM (Shoeybi et al. 2019), for layers that are cut by rows of their input.

use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp1, Error, Layout, Result, Shape, Tensor};
use parking_lot::Mutex;
use selvedge_channels::Element;

use crate::communicator::Communicator;
use crate::operation::ReduceOp;

/// An allreduce of a tensor with those of the other ranks, which have equal shapes. The elements are `f32`, `f64`,
/// `f16`, `bf16`, `u8`, `u32`, `i16`, `i32` or `i64`.
///
/// Clones share the rank, so one rank serves all layers of a model. Every rank must apply the operation in the same
/// order, as it does when all ranks run the same model.
pub struct AllReduceOp<C> {
    rank: Arc<Mutex<C>>,
    op: ReduceOp,
}

impl<C> Clone for AllReduceOp<C> {
    fn clone(&self) -> Self {
        AllReduceOp {
            rank: Arc::clone(&self.rank),
            op: self.op,
        }
    }
}

impl<C: Communicator> AllReduceOp<C> {
    /// Creates the operation from a rank of a group.
    pub fn new(rank: C, op: ReduceOp) -> Self {
        AllReduceOp {
            rank: Arc::new(Mutex::new(rank)),
            op,
        }
    }

    fn reduced<E: Element>(&self, values: &[E], layout: &Layout) -> Result<Vec<E>> {
        let mut own: Vec<E> = match layout.contiguous_offsets() {
            Some((from, to)) => values.get(from..to).unwrap_or_default().to_vec(),
            None => places(layout).filter_map(|at| values.get(at).copied()).collect(),
        };
        let reduced = self.rank.lock().allreduce_slice(self.op, &mut own);
        reduced.map(|()| own).map_err(Error::wrap)
    }
}

/// Returns the indices of the elements of a layout, row-major.
fn places(layout: &Layout) -> impl Iterator<Item = usize> + '_ {
    let count = layout.shape().elem_count();
    (0..count).map(|index| {
        let dimensions = layout.dims().iter().zip(layout.stride()).rev();
        let (at, _) = dimensions.fold((layout.start_offset(), index), |(at, rest), (size, stride)| {
            (at + rest % size * stride, rest / size)
        });
        at
    })
}

impl<C: Communicator> CustomOp1 for AllReduceOp<C> {
    fn name(&self) -> &'static str {
        "allreduce"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let reduced = match storage {
            CpuStorage::U8(values) => CpuStorage::U8(self.reduced(values, layout)?),
            CpuStorage::U32(values) => CpuStorage::U32(self.reduced(values, layout)?),
            CpuStorage::I16(values) => CpuStorage::I16(self.reduced(values, layout)?),
            CpuStorage::I32(values) => CpuStorage::I32(self.reduced(values, layout)?),
            CpuStorage::I64(values) => CpuStorage::I64(self.reduced(values, layout)?),
            CpuStorage::BF16(values) => CpuStorage::BF16(self.reduced(values, layout)?),
            CpuStorage::F16(values) => CpuStorage::F16(self.reduced(values, layout)?),
            CpuStorage::F32(values) => CpuStorage::F32(self.reduced(values, layout)?),
            CpuStorage::F64(values) => CpuStorage::F64(self.reduced(values, layout)?),
            _ => candle_core::bail!("allreduce moves no 8-bit floats and nothing below"),
        };
        Ok((reduced, layout.shape().clone()))
    }

    /// Returns the gradient. For a sum it is the gradient of the result, on every rank; for an average, that gradient
    /// divided by the number of ranks. Other reductions have no gradient.
    fn bwd(&self, _: &Tensor, _: &Tensor, grad_res: &Tensor) -> Result<Option<Tensor>> {
        match self.op {
            ReduceOp::Sum => Ok(Some(grad_res.clone())),
            ReduceOp::Average => {
                let ranks = self.rank.lock().world_size();
                grad_res.affine(1.0 / ranks as f64, 0.0).map(Some)
            }
            _ => Err(Error::BackwardNotSupported { op: self.name() }),
        }
    }
}
