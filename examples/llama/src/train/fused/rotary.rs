//! Rotary positions (Su et al., 2021): the first half of a row holds one number of each pair, the second half the
//! other, and a position rotates every pair by an angle of its own.

use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor};

use super::{numbers, width};

/// The angles of all positions.
#[derive(Clone, Debug)]
pub struct Angles {
    /// Cosines and sines, pair by pair within a position, and position by position.
    turns: Arc<[(f32, f32)]>,
    pairs: usize,
}

impl Angles {
    /// Computes the angles for rows of `head` numbers at positions below `positions`.
    pub fn new(head: usize, positions: usize, theta: f32) -> Angles {
        let pairs = (head / 2).max(1);
        let speed = move |pair: usize| theta.powf(-(pair as f32) / pairs as f32);
        let angle = |at: usize| (0..pairs).map(move |pair| at as f32 * speed(pair));
        let turns = (0..positions)
            .flat_map(angle)
            .map(|angle| (angle.cos(), angle.sin()));
        Angles {
            turns: turns.collect(),
            pairs,
        }
    }

    /// Rotates `[.., length, head]` by position.
    ///
    /// # Errors
    /// The tensor is not contiguous, not of `f32`, has rows of another length, or is longer than the positions.
    pub fn turn(&self, x: &Tensor) -> Result<Tensor> {
        x.apply_op1(Turn {
            angles: self.clone(),
            sign: 1.0,
        })
    }
}

/// The rotation: forward, or backward with the opposite sign.
struct Turn {
    angles: Angles,
    sign: f32,
}

impl CustomOp1 for Turn {
    fn name(&self) -> &'static str {
        "turn"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (x, pairs) = (numbers(storage, layout)?, self.angles.pairs);
        let length = layout.dims().iter().rev().nth(1).copied().unwrap_or(1).max(1);
        let turns = self.angles.turns.get(..length * pairs);
        let Some(turns) = turns.filter(|_| width(layout) == 2 * pairs) else {
            candle_core::bail!("there are no angles for {:?}", layout.dims());
        };
        let mut out = vec![0.0; x.len()];
        let turns = turns.chunks_exact(pairs).cycle();
        let rows = x
            .chunks_exact(2 * pairs)
            .zip(out.chunks_exact_mut(2 * pairs))
            .zip(turns);
        for ((x, out), turns) in rows {
            let ((left, right), (new_left, new_right)) = (x.split_at(pairs), out.split_at_mut(pairs));
            let pairs = left.iter().zip(right).zip(new_left.iter_mut().zip(new_right));
            for (((left, right), (new_left, new_right)), (cos, sin)) in pairs.zip(turns) {
                let sin = sin * self.sign;
                *new_left = left * cos - right * sin;
                *new_right = right * cos + left * sin;
            }
        }
        Ok((CpuStorage::F32(out), layout.shape().clone()))
    }

    fn bwd(&self, _: &Tensor, _: &Tensor, up: &Tensor) -> Result<Option<Tensor>> {
        let back = Turn {
            angles: self.angles.clone(),
            sign: -self.sign,
        };
        up.contiguous()?.apply_op1_no_bwd(&back).map(Some)
    }
}
