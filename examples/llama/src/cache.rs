//! Keys and values of the tokens seen so far: for every layer and slot a tensor that is allocated once.

use candle_core::{DType, Device, Result, Tensor};

/// A layer's cache of one slot: `[positions, heads, head_size]` each.
pub(crate) struct Cache {
    keys: Tensor,
    values: Tensor,
}

impl Cache {
    pub(crate) fn new(positions: usize, heads: usize, head_size: usize) -> Result<Self> {
        // Pages of zeros cost nothing before they are written.
        let zeros = || Tensor::zeros((positions, heads, head_size), DType::F32, &Device::Cpu);
        Ok(Cache {
            keys: zeros()?,
            values: zeros()?,
        })
    }

    /// Writes keys and values, `[tokens, heads, head_size]`, from position `start` on, and gives back those of all positions up to
    /// the last written: views.
    pub(crate) fn extend(&self, start: usize, keys: &Tensor, values: &Tensor) -> Result<(Tensor, Tensor)> {
        let seen = start + keys.dim(0)?;
        self.keys.slice_set(keys, 0, start)?;
        self.values.slice_set(values, 0, start)?;
        Ok((self.keys.narrow(0, 0, seen)?, self.values.narrow(0, 0, seen)?))
    }
}
