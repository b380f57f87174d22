//! One layer: attention and a feed-forward network, or a rank's part of them.
//!
//! Both take the hidden states of all tokens, `[tokens, hidden]`, and return a part of the new ones: the sum over the
//! ranks is the whole. Rank 0 has already added the old hidden states to its part. So ranks communicate only through
//! sums, and no addition is left to do afterwards.

use candle_core::{D, Tensor};
use candle_nn::ops::{rms_norm, softmax_last_dim};

use crate::cache::Cache;
use crate::config::Config;
use crate::error::LoadError;
use crate::frame::{Frame, Piece};
use crate::share::Share;
use crate::tensors::{Tensors, of_layer};

/// A rank's part of a layer.
pub(crate) struct Layer {
    attention: Attention,
    mlp: Mlp,
    /// True if this rank adds the old hidden states, which only rank 0 does.
    adds: bool,
}

struct Attention {
    norm: Norm,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    shape: Heads,
    /// One cache for each slot.
    caches: Vec<Cache>,
}

#[derive(Clone, Copy)]
struct Heads {
    /// The number of key-value heads of this rank.
    groups: usize,
    /// The number of query heads for each key-value head.
    each: usize,
    size: usize,
}

struct Mlp {
    norm: Norm,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
}

/// Root mean square normalisation (Zhang and Sennrich, 2019).
pub(crate) struct Norm {
    weight: Tensor,
    epsilon: f32,
}

/// The capacity of the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Room {
    /// The number of sequences.
    pub slots: usize,
    /// The tokens of each sequence.
    pub positions: usize,
}

impl Norm {
    pub(crate) fn load(tensors: &Tensors<'_>, name: &str, config: &Config) -> Result<Self, LoadError> {
        Ok(Norm {
            weight: tensors.get(name)?,
            epsilon: config.norm_epsilon,
        })
    }

    pub(crate) fn of(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        rms_norm(x, &self.weight, self.epsilon)
    }
}

impl Layer {
    pub(crate) fn load(
        tensors: &Tensors<'_>,
        config: &Config,
        share: &Share,
        layer: usize,
        room: Room,
    ) -> Result<Self, LoadError> {
        Ok(Layer {
            attention: Attention::load(tensors, config, share, layer, room)?,
            mlp: Mlp::load(tensors, config, layer)?,
            adds: share.rank == 0,
        })
    }

    pub(crate) fn attention(&self, x: &Tensor, frame: &Frame) -> candle_core::Result<Tensor> {
        self.onto(x, self.attention.of(x, frame)?)
    }

    pub(crate) fn mlp(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        self.onto(x, self.mlp.of(x)?)
    }

    fn onto(&self, x: &Tensor, change: Tensor) -> candle_core::Result<Tensor> {
        if self.adds { x + change } else { Ok(change) }
    }
}

impl Attention {
    fn load(
        tensors: &Tensors<'_>,
        config: &Config,
        share: &Share,
        layer: usize,
        room: Room,
    ) -> Result<Self, LoadError> {
        let shape = Heads {
            groups: config.key_value_heads / share.ranks,
            each: config.heads / config.key_value_heads,
            size: config.head_size,
        };
        let caches = (0..room.slots).map(|_| Cache::new(room.positions, shape.groups, shape.size));
        Ok(Attention {
            norm: Norm::load(tensors, &of_layer(layer, "input_layernorm"), config)?,
            query: tensors.projection(layer, "self_attn.q_proj")?,
            key: tensors.projection(layer, "self_attn.k_proj")?,
            value: tensors.projection(layer, "self_attn.v_proj")?,
            output: tensors.projection(layer, "self_attn.o_proj")?,
            shape,
            caches: caches.collect::<candle_core::Result<_>>()?,
        })
    }

    fn of(&self, x: &Tensor, frame: &Frame) -> candle_core::Result<Tensor> {
        let x = self.norm.of(x)?;
        let (tokens, Heads { groups, each, size }) = (x.dim(0)?, self.shape);
        let query = x.matmul(&self.query)?.reshape((tokens, groups * each, size))?;
        let key = x.matmul(&self.key)?.reshape((tokens, groups, size))?;
        let value = x.matmul(&self.value)?.reshape((tokens, groups, size))?;
        let (query, key) = (frame.angles.turn(&query)?, frame.angles.turn(&key)?);
        let mixed = match frame.pieces.as_slice() {
            [piece] => self.mix(piece, &query, &key, &value)?,
            pieces => {
                let rows = |x: &Tensor, piece: &Piece| x.narrow(0, piece.rows.start, piece.rows.len());
                let mixed = pieces.iter().map(|piece| {
                    self.mix(
                        piece,
                        &rows(&query, piece)?,
                        &rows(&key, piece)?,
                        &rows(&value, piece)?,
                    )
                });
                Tensor::cat(&mixed.collect::<candle_core::Result<Vec<_>>>()?, 0)?
            }
        };
        mixed.matmul(&self.output)
    }

    /// Computes attention within one sequence: every token of a piece attends to all tokens up to itself. Returns
    /// `[tokens, heads * head_size]`.
    fn mix(
        &self,
        piece: &Piece,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
    ) -> candle_core::Result<Tensor> {
        let Some(cache) = self.caches.get(piece.slot) else {
            candle_core::bail!("there is no slot {}", piece.slot);
        };
        let (keys, values) = cache.extend(piece.start, key, value)?;
        let (tokens, Heads { groups, each, size }) = (piece.rows.len(), self.shape);
        // All queries of the same keys are rows of one matrix: `[groups, each * tokens, size]`.
        let query = query
            .reshape((tokens, groups, each, size))?
            .permute((1, 2, 0, 3))?;
        let query = query.reshape((groups, each * tokens, size))?;
        let scores = query.matmul(&keys.permute((1, 2, 0))?)?;
        let scores = (scores * (1.0 / (size as f64).sqrt()))?;
        let scores = match &piece.mask {
            None => scores,
            Some(mask) => {
                let seen = mask.dim(D::Minus1)?;
                let apart = scores.reshape((groups, each, tokens, seen))?;
                apart
                    .broadcast_add(mask)?
                    .reshape((groups, each * tokens, seen))?
            }
        };
        let mixed = softmax_last_dim(&scores)?.matmul(&values.transpose(0, 1)?)?;
        let mixed = mixed
            .reshape((groups, each, tokens, size))?
            .permute((2, 0, 1, 3))?;
        mixed.reshape((tokens, groups * each * size))
    }
}

impl Mlp {
    fn load(tensors: &Tensors<'_>, config: &Config, layer: usize) -> Result<Self, LoadError> {
        Ok(Mlp {
            norm: Norm::load(tensors, &of_layer(layer, "post_attention_layernorm"), config)?,
            gate: tensors.projection(layer, "mlp.gate_proj")?,
            up: tensors.projection(layer, "mlp.up_proj")?,
            down: tensors.projection(layer, "mlp.down_proj")?,
        })
    }

    /// Applies SwiGLU (Shazeer, 2020).
    fn of(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        let x = self.norm.of(x)?;
        let gated = (x.matmul(&self.gate)?.silu()? * x.matmul(&self.up)?)?;
        gated.matmul(&self.down)
    }
}
