//! The gate of SwiGLU (Shazeer, 2020): `silu(a) · b`, where a row holds all of `a`, followed by all of `b`.

use candle_core::{CpuStorage, CustomOp1, CustomOp2, Layout, Result, Shape, Tensor};

use super::{numbers, width};

/// Maps `[.., 2n]` to `[.., n]`.
///
/// # Errors
/// The tensor is not contiguous, or not of `f32`.
pub fn gated(both: &Tensor) -> Result<Tensor> {
    both.apply_op1(Forward)
}

struct Forward;
struct Backward;

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

impl CustomOp1 for Forward {
    fn name(&self) -> &'static str {
        "gated"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (both, n) = (numbers(storage, layout)?, width(layout) / 2);
        let mut out = Vec::with_capacity(both.len() / 2);
        for (gate, value) in both.chunks_exact(2 * n.max(1)).map(|row| row.split_at(n)) {
            out.extend(
                gate.iter()
                    .zip(value)
                    .map(|(gate, value)| gate * sigmoid(*gate) * value),
            );
        }
        let mut dims = layout.dims().to_vec();
        if let Some(last) = dims.last_mut() {
            *last = n;
        }
        Ok((CpuStorage::F32(out), dims.into()))
    }

    fn bwd(&self, both: &Tensor, _: &Tensor, up: &Tensor) -> Result<Option<Tensor>> {
        both.apply_op2_no_bwd(&up.contiguous()?, &Backward).map(Some)
    }
}

impl CustomOp2 for Backward {
    fn name(&self) -> &'static str {
        "gated-backward"
    }

    fn cpu_fwd(
        &self,
        both: &CpuStorage,
        at: &Layout,
        up: &CpuStorage,
        up_at: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (both, up, n) = (numbers(both, at)?, numbers(up, up_at)?, (width(at) / 2).max(1));
        let mut out = vec![0.0; both.len()];
        let rows = both
            .chunks_exact(2 * n)
            .zip(up.chunks_exact(n))
            .zip(out.chunks_exact_mut(2 * n));
        for ((both, up), out) in rows {
            let ((gate, value), (by_gate, by_value)) = (both.split_at(n), out.split_at_mut(n));
            let terms = gate
                .iter()
                .zip(value)
                .zip(up)
                .zip(by_gate.iter_mut().zip(by_value));
            for (((gate, value), up), (by_gate, by_value)) in terms {
                let open = sigmoid(*gate);
                *by_value = up * gate * open;
                *by_gate = up * value * open * (1.0 + gate * (1.0 - open));
            }
        }
        Ok((CpuStorage::F32(out), at.shape().clone()))
    }
}
