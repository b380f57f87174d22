//! The layers of a Llama, built from differentiable operations: they process a whole text at once, without a cache.
//!
//! RMSNorm (Zhang and Sennrich, 2019), rotary positions (Su et al., 2021) on the halves of a head, grouped-query
//! attention (Ainslie et al., 2023), SwiGLU (Shazeer, 2020), and a residual sum around each.

use candle_core::{Result, Tensor};

use super::fused::causal::causal_softmax;
use super::fused::gated::gated;
use super::fused::norm::normalised;
use super::fused::rotary::Angles;
use super::parameters::Parameters;
use super::shape::Shape;

/// A differentiable model.
pub struct Decoder {
    shape: Shape,
    embedding: Tensor,
    layers: Vec<Layer>,
    norm: Tensor,
    head: Tensor,
    angles: Angles,
}

struct Layer {
    attention_norm: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    perceptron_norm: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
}

impl Decoder {
    /// Creates the model of these parameters; it follows their changes.
    ///
    /// # Errors
    /// A parameter is missing.
    pub fn new(shape: Shape, parameters: &Parameters) -> Result<Decoder> {
        let layers = (0..shape.layers).map(|index| Layer::new(index, parameters));
        Ok(Decoder {
            shape,
            embedding: parameters.get("model.embed_tokens.weight")?,
            layers: layers.collect::<Result<_>>()?,
            norm: parameters.get("model.norm.weight")?,
            head: parameters.get("lm_head.weight")?,
            angles: Angles::new(shape.head(), shape.positions, Shape::THETA),
        })
    }

    /// Returns the logits `[n, length, vocabulary]` of the token that follows each of the tokens `[n, length]`.
    ///
    /// # Errors
    /// Candle's errors: unknown tokens, or more tokens than positions.
    pub fn forward(&self, tokens: &Tensor) -> Result<Tensor> {
        linear(&self.hidden(tokens)?, &self.head)
    }

    /// Returns the logits `[n, vocabulary]` of the token that follows the last of the tokens `[n, length]`.
    ///
    /// # Errors
    /// The errors of [`forward`](Self::forward).
    pub fn next(&self, tokens: &Tensor) -> Result<Tensor> {
        let hidden = self.hidden(tokens)?;
        let last = hidden.dim(1)?.saturating_sub(1);
        linear(&hidden.narrow(1, last, 1)?.squeeze(1)?.contiguous()?, &self.head)
    }

    fn hidden(&self, tokens: &Tensor) -> Result<Tensor> {
        let (n, length) = tokens.dims2()?;
        let x = self.embedding.index_select(&tokens.flatten_all()?, 0)?;
        let mut x = x.reshape((n, length, self.shape.hidden))?;
        for layer in &self.layers {
            x = (&x + self.attention(layer, &rms_norm(&x, &layer.attention_norm)?)?)?;
            x = (&x + layer.perceptron(&rms_norm(&x, &layer.perceptron_norm)?)?)?;
        }
        rms_norm(&x, &self.norm)
    }

    fn attention(&self, layer: &Layer, x: &Tensor) -> Result<Tensor> {
        let (n, length, hidden) = x.dims3()?;
        let (heads, shared, head) = (self.shape.heads, self.shape.shared_heads, self.shape.head());
        let by_head = |x: Tensor, heads| x.reshape((n, length, heads, head))?.transpose(1, 2)?.contiguous();
        let query = (linear(x, &layer.query)? / (head as f64).sqrt())?;
        let query = self.angles.turn(&by_head(query, heads)?)?;
        let key = self.angles.turn(&by_head(linear(x, &layer.key)?, shared)?)?;
        let value = by_head(linear(x, &layer.value)?, shared)?;
        // Heads that share keys lie next to each other: their queries are one longer list.
        let query = query.reshape((n, shared, self.shape.sharing() * length, head))?;
        let shares = causal_softmax(&query.matmul(&key.t()?)?)?;
        let seen = shares.matmul(&value)?.reshape((n, heads, length, head))?;
        linear(
            &seen.transpose(1, 2)?.reshape((n, length, hidden))?,
            &layer.output,
        )
    }
}

impl Layer {
    fn new(index: usize, parameters: &Parameters) -> Result<Layer> {
        let get = |name: &str| parameters.get(&format!("model.layers.{index}.{name}.weight"));
        Ok(Layer {
            attention_norm: get("input_layernorm")?,
            query: get("self_attn.q_proj")?,
            key: get("self_attn.k_proj")?,
            value: get("self_attn.v_proj")?,
            output: get("self_attn.o_proj")?,
            perceptron_norm: get("post_attention_layernorm")?,
            gate: get("mlp.gate_proj")?,
            up: get("mlp.up_proj")?,
            down: get("mlp.down_proj")?,
        })
    }

    fn perceptron(&self, x: &Tensor) -> Result<Tensor> {
        let both = Tensor::cat(&[&self.gate, &self.up], 0)?;
        linear(&gated(&linear(x, &both)?)?, &self.down)
    }
}

/// Multiplies all texts in one product of matrices; candle would compute one product per text.
fn linear(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let mut dims = x.dims().to_vec();
    let inputs = dims.pop().unwrap_or_default();
    dims.push(weight.dim(0)?);
    x.reshape(((), inputs))?.matmul(&weight.t()?)?.reshape(dims)
}

fn rms_norm(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    normalised(x, Shape::EPSILON)?.broadcast_mul(weight)
}
