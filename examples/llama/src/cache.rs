//! The cache of keys and values of the tokens seen so far: for every layer and slot, tensors that are allocated once.

use candle_core::{DType, Device, Result, Tensor};

/// A layer's cache of one slot: two tensors `[positions, heads, head_size]`.
pub(crate) struct Cache {
    keys: Tensor,
    values: Tensor,
}

impl Cache {
    pub(crate) fn new(positions: usize, heads: usize, head_size: usize) -> Result<Self> {
        // Pages of zeros use no memory before they are written.
        let zeros = || Tensor::zeros((positions, heads, head_size), DType::F32, &Device::Cpu);
        Ok(Cache {
            keys: zeros()?,
            values: zeros()?,
        })
    }

    /// Writes keys and values, `[tokens, heads, head_size]`, from position `start` on, and returns views of the keys
    /// and values of all positions up to the last written.
    pub(crate) fn extend(&self, start: usize, keys: &Tensor, values: &Tensor) -> Result<(Tensor, Tensor)> {
        let seen = start + keys.dim(0)?;
        self.keys.slice_set(keys, 0, start)?;
        self.values.slice_set(values, 0, start)?;
        Ok((self.keys.narrow(0, 0, seen)?, self.values.narrow(0, 0, seen)?))
    }
}
