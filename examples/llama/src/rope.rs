//! Rotary position embedding (Su et al., 2021): pairs of numbers of a head are rotated by an angle that grows with the
//! position.

use std::f32::consts::PI;

use candle_core::{Device, Result, Tensor};

use crate::config::{Config, Stretch};

/// Cosines and sines for all positions: two tensors `[positions, head_size / 2]`.
pub(crate) struct Angles {
    cos: Tensor,
    sin: Tensor,
}

impl Angles {
    pub(crate) fn new(config: &Config, positions: usize) -> Result<Self> {
        let size = config.head_size;
        let frequency = |pair: usize| {
            let plain = 1.0 / config.rope.theta.powf((2 * pair) as f32 / size as f32);
            config.rope.stretch.map_or(plain, |stretch| stretch.of(plain))
        };
        let frequencies: Vec<f32> = (0..size / 2).map(frequency).collect();
        let angles: Vec<f32> = (0..positions)
            .flat_map(|position| {
                frequencies
                    .iter()
                    .map(move |frequency| position as f32 * frequency)
            })
            .collect();
        let angles = Tensor::from_vec(angles, (positions, size / 2), &Device::Cpu)?;
        Ok(Angles {
            cos: angles.cos()?,
            sin: angles.sin()?,
        })
    }

    /// Returns the angles of some positions, one row each.
    pub(crate) fn at(&self, positions: &[u32]) -> Result<Angles> {
        let positions = Tensor::new(positions, &Device::Cpu)?;
        Ok(Angles {
            cos: self.cos.index_select(&positions, 0)?,
            sin: self.sin.index_select(&positions, 0)?,
        })
    }

    /// Rotates `[tokens, heads, head_size]`, with one row of angles for each token.
    pub(crate) fn turn(&self, x: &Tensor) -> Result<Tensor> {
        candle_nn::rotary_emb::rope_thd(&x.unsqueeze(0)?, &self.cos, &self.sin)?.squeeze(0)
    }
}

impl Stretch {
    /// Stretches a frequency: a short wavelength is unchanged, a long one is stretched by all of `factor`.
    fn of(&self, frequency: f32) -> f32 {
        let trained = self.original_max_position_embeddings as f32;
        let turns = trained * frequency / (2.0 * PI);
        if turns > self.high_freq_factor {
            return frequency;
        }
        if turns < self.low_freq_factor {
            return frequency / self.factor;
        }
        let kept = (turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor);
        (1.0 - kept) * frequency / self.factor + kept * frequency
    }
}
