//! Softmax over the past. The last dimension is the position of the key; the rows are the positions of the queries, in
//! order and repeated: row `r` of `n` columns sees columns `0..=r % n`.

use candle_core::{CpuStorage, CustomOp1, CustomOp2, Layout, Result, Shape, Tensor};

use super::{numbers, width};

/// Returns the softmax over columns `0..=r % n` of row `r`; the other columns are 0.
///
/// # Errors
/// The tensor is not contiguous, or not of `f32`.
pub fn causal_softmax(scores: &Tensor) -> Result<Tensor> {
    scores.apply_op1(Forward)
}

struct Forward;
struct Backward;

impl CustomOp1 for Forward {
    fn name(&self) -> &'static str {
        "causal-softmax"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (scores, n) = (numbers(storage, layout)?, width(layout));
        let mut shares = vec![0.0; scores.len()];
        for (row, (scores, shares)) in scores.chunks_exact(n).zip(shares.chunks_exact_mut(n)).enumerate() {
            let seen = row % n + 1;
            let largest = scores.iter().take(seen).copied().fold(f32::MIN, f32::max);
            let mut sum = 0.0;
            for (share, score) in shares.iter_mut().zip(scores).take(seen) {
                *share = (score - largest).exp();
                sum += *share;
            }
            for share in shares.iter_mut().take(seen) {
                *share /= sum;
            }
        }
        Ok((CpuStorage::F32(shares), layout.shape().clone()))
    }

    fn bwd(&self, _: &Tensor, shares: &Tensor, up: &Tensor) -> Result<Option<Tensor>> {
        shares.apply_op2_no_bwd(&up.contiguous()?, &Backward).map(Some)
    }
}

impl CustomOp2 for Backward {
    fn name(&self) -> &'static str {
        "causal-softmax-backward"
    }

    fn cpu_fwd(
        &self,
        shares: &CpuStorage,
        at: &Layout,
        up: &CpuStorage,
        up_at: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (shares, up, n) = (numbers(shares, at)?, numbers(up, up_at)?, width(at));
        let mut scores = vec![0.0; shares.len()];
        let rows = shares
            .chunks_exact(n)
            .zip(up.chunks_exact(n))
            .zip(scores.chunks_exact_mut(n));
        for (row, ((shares, up), scores)) in rows.enumerate() {
            let seen = row % n + 1;
            // Each probability, times the difference between its gradient and the mean gradient weighted by the
            // probabilities.
            let mean: f32 = shares
                .iter()
                .zip(up)
                .take(seen)
                .map(|(share, up)| share * up)
                .sum();
            for ((score, share), up) in scores.iter_mut().zip(shares).zip(up).take(seen) {
                *score = share * (up - mean);
            }
        }
        Ok((CpuStorage::F32(scores), at.shape().clone()))
    }
}
