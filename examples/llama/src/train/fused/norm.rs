//! RMSNorm (Zhang and Sennrich, 2019), without its weight: a row divided by the root of its mean square.

use candle_core::{CpuStorage, CustomOp1, CustomOp2, Layout, Result, Shape, Tensor};

use super::{numbers, width};

/// Returns `x / sqrt(mean(x²) + epsilon)`, row by row.
///
/// # Errors
/// The tensor is not contiguous, or not of `f32`.
pub fn normalised(x: &Tensor, epsilon: f64) -> Result<Tensor> {
    x.apply_op1(Forward(epsilon as f32))
}

struct Forward(f32);
struct Backward(f32);

/// Returns the factor of a row.
fn scale(row: &[f32], epsilon: f32) -> f32 {
    let square: f32 = row.iter().map(|x| x * x).sum();
    1.0 / (square / row.len() as f32 + epsilon).sqrt()
}

impl CustomOp1 for Forward {
    fn name(&self) -> &'static str {
        "normalised"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (x, n) = (numbers(storage, layout)?, width(layout));
        let mut out = Vec::with_capacity(x.len());
        for row in x.chunks_exact(n) {
            let scale = scale(row, self.0);
            out.extend(row.iter().map(|x| x * scale));
        }
        Ok((CpuStorage::F32(out), layout.shape().clone()))
    }

    fn bwd(&self, x: &Tensor, _: &Tensor, up: &Tensor) -> Result<Option<Tensor>> {
        x.apply_op2_no_bwd(&up.contiguous()?, &Backward(self.0)).map(Some)
    }
}

impl CustomOp2 for Backward {
    fn name(&self) -> &'static str {
        "normalised-backward"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        at: &Layout,
        up: &CpuStorage,
        up_at: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (x, up, n) = (numbers(x, at)?, numbers(up, up_at)?, width(at));
        let mut out = Vec::with_capacity(x.len());
        for (x, up) in x.chunks_exact(n).zip(up.chunks_exact(n)) {
            let scale = scale(x, self.0);
            let along: f32 = x.iter().zip(up).map(|(x, up)| x * up).sum::<f32>() / n as f32;
            let back = along * scale * scale;
            out.extend(x.iter().zip(up).map(|(x, up)| scale * (up - x * back)));
        }
        Ok((CpuStorage::F32(out), at.shape().clone()))
    }
}
