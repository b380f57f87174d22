//! The numbers of layers, heads and elements of the model, and the `config.json` that states them.

use serde_json::{Value, json};

use super::tokenizer::{END, id, vocabulary};

/// The size of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The numbers per token between layers.
    pub hidden: usize,
    /// The numbers inside a layer's perceptron.
    pub inner: usize,
    /// The number of layers.
    pub layers: usize,
    /// The number of heads of a layer's attention.
    pub heads: usize,
    /// The number of heads of keys and values; several query heads share one (Ainslie et al., 2023).
    pub shared_heads: usize,
    /// The number of tokens in the vocabulary.
    pub vocabulary: usize,
    /// The longest text, in tokens.
    pub positions: usize,
}

impl Shape {
    /// The number added to the mean square before its root is taken.
    pub const EPSILON: f64 = 1e-5;
    /// The base of the angles by which positions rotate keys and queries.
    pub const THETA: f32 = 10_000.0;

    /// Returns the size of the shipped model.
    pub fn shipped() -> Shape {
        Shape {
            hidden: 64,
            inner: 128,
            layers: 4,
            heads: 4,
            shared_heads: 2,
            vocabulary: vocabulary().len(),
            positions: 512,
        }
    }

    /// Returns the numbers per head.
    pub fn head(&self) -> usize {
        self.hidden / self.heads.max(1)
    }

    /// Returns the number of query heads that share a key-value head.
    pub fn sharing(&self) -> usize {
        self.heads / self.shared_heads.max(1)
    }

    /// Returns the `config.json` of a model of 16-bit numbers.
    pub fn json(&self) -> Value {
        json!({
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": self.hidden,
            "intermediate_size": self.inner,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.shared_heads,
            "head_dim": self.head(),
            "vocab_size": self.vocabulary,
            "max_position_embeddings": self.positions,
            "rms_norm_eps": Shape::EPSILON,
            "rope_theta": Shape::THETA,
            "hidden_act": "silu",
            "attention_bias": false,
            "mlp_bias": false,
            "tie_word_embeddings": false,
            "bos_token_id": null,
            "eos_token_id": id(END),
            "torch_dtype": "float16",
        })
    }
}
