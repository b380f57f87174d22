//! The numbers that are learnt, by their names in a Llama's file.

use std::collections::{BTreeMap, HashMap};

use candle_core::{DType, Device, Result, Tensor, Var};
use selvedge_examples::random::Random;

use super::shape::Shape;

/// All parameters, in the order of their names.
#[derive(Clone, Debug)]
pub struct Parameters {
    by_name: BTreeMap<String, Var>,
}

/// The initial values of a tensor.
#[derive(Clone, Copy)]
enum Start {
    /// All ones, for a norm.
    Ones,
    /// Uniform, with absolute values up to this size.
    Uniform(f32),
}

impl Parameters {
    /// Creates random parameters. A matrix preserves the variance of its input (LeCun et al., 1998); matrices whose
    /// result is added to the hidden state start smaller the more layers the model has, so that the sum does not grow
    /// with depth.
    ///
    /// # Errors
    /// The errors of candle.
    pub fn random(shape: &Shape, random: &mut Random) -> Result<Parameters> {
        let mut by_name = BTreeMap::new();
        for (name, dims, start) in tensors(shape) {
            let count = dims.iter().product();
            let value = |_| match start {
                Start::Ones => 1.0,
                Start::Uniform(size) => size * random.signed(),
            };
            let values: Vec<f32> = (0..count).map(value).collect();
            by_name.insert(name, Var::from_vec(values, dims, &Device::Cpu)?);
        }
        Ok(Parameters { by_name })
    }

    /// Creates the parameters from the tensors of a file.
    ///
    /// # Errors
    /// Candle's error for a missing tensor, another shape, or numbers that do not convert to `f32`.
    pub fn from_tensors(shape: &Shape, tensors_by_name: &HashMap<String, Tensor>) -> Result<Parameters> {
        let mut by_name = BTreeMap::new();
        for (name, dims, _) in tensors(shape) {
            let Some(tensor) = tensors_by_name.get(&name) else {
                candle_core::bail!("there is no tensor `{name}`");
            };
            let tensor = tensor.to_dtype(DType::F32)?.reshape(dims)?;
            by_name.insert(name, Var::from_tensor(&tensor)?);
        }
        Ok(Parameters { by_name })
    }

    /// Returns names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Var)> {
        self.by_name.iter().map(|(name, var)| (name.as_str(), var))
    }

    /// Returns the value of a name.
    ///
    /// # Errors
    /// The name does not exist.
    pub fn get(&self, name: &str) -> Result<Tensor> {
        match self.by_name.get(name) {
            Some(var) => Ok(var.as_tensor().clone()),
            None => candle_core::bail!("there is no tensor `{name}`"),
        }
    }
}

/// Returns names, shapes and initial values of all tensors, in the order in which they receive random numbers.
fn tensors(shape: &Shape) -> Vec<(String, Vec<usize>, Start)> {
    let (hidden, inner) = (shape.hidden, shape.inner);
    let shared = shape.shared_heads * shape.head();
    let keeps = |inputs: usize| Start::Uniform((3.0 / inputs as f32).sqrt());
    let adds = |inputs: usize| Start::Uniform((1.5 / (inputs * shape.layers.max(1)) as f32).sqrt());
    let mut tensors = vec![(
        "model.embed_tokens.weight".into(),
        vec![shape.vocabulary, hidden],
        Start::Uniform(0.5),
    )];
    for layer in 0..shape.layers {
        let mut push = |name: &str, dims: Vec<usize>, start| {
            tensors.push((format!("model.layers.{layer}.{name}.weight"), dims, start));
        };
        push("input_layernorm", vec![hidden], Start::Ones);
        push("self_attn.q_proj", vec![hidden, hidden], keeps(hidden));
        push("self_attn.k_proj", vec![shared, hidden], keeps(hidden));
        push("self_attn.v_proj", vec![shared, hidden], keeps(hidden));
        push("self_attn.o_proj", vec![hidden, hidden], adds(hidden));
        push("post_attention_layernorm", vec![hidden], Start::Ones);
        push("mlp.gate_proj", vec![inner, hidden], keeps(hidden));
        push("mlp.up_proj", vec![inner, hidden], keeps(hidden));
        push("mlp.down_proj", vec![hidden, inner], adds(inner));
    }
    tensors.push(("model.norm.weight".into(), vec![hidden], Start::Ones));
    tensors.push((
        "lm_head.weight".into(),
        vec![shape.vocabulary, hidden],
        keeps(hidden),
    ));
    tensors
}
