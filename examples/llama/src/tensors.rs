//! The tensors that a share of the model needs, under the names of Hugging Face, and the slice of each.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::Tensor;

use crate::config::Config;
use crate::error::LoadError;
use crate::share::Share;
use crate::weights::{Cut, Weights};

pub(crate) const EMBEDDING: &str = "model.embed_tokens.weight";
pub(crate) const NORM: &str = "model.norm.weight";
const HEAD: &str = "lm_head.weight";

/// A tensor that a share needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needed {
    /// The name of the tensor.
    pub name: String,
    /// The shape of the whole tensor in the file.
    pub shape: Vec<usize>,
    /// The part that the share reads.
    pub cut: Cut,
}

/// Returns the name of the matrix that makes logits.
pub(crate) fn head(config: &Config) -> &'static str {
    if config.tied { EMBEDDING } else { HEAD }
}

/// True for tensors that some files have although they follow from others: the angles of positions, and a head that
/// equals the embedding.
pub(crate) fn is_derived(config: &Config, name: &str) -> bool {
    name.ends_with("rotary_emb.inv_freq") || (config.tied && name == HEAD)
}

/// Returns the name of a tensor of a layer.
pub(crate) fn of_layer(layer: usize, name: &str) -> String {
    format!("model.layers.{layer}.{name}.weight")
}

/// Returns all tensors that a share needs, each once. Projections into heads and into the feed-forward network are cut
/// by rows, projections back by columns; the others are whole. Only rank 0 of the last stage makes logits.
#[must_use]
pub fn needed(config: &Config, share: &Share) -> Vec<Needed> {
    let table = [config.vocabulary, config.hidden];
    let mut needed = Vec::new();
    let mut add = |name: String, shape: &[usize], cut| {
        let shape = shape.to_vec();
        needed.push(Needed { name, shape, cut });
    };
    if share.is_first() {
        add(EMBEDDING.into(), &table, Cut::Whole);
    }
    for layer in share.layers(config.layers) {
        for (name, shape, cut) in layer_shapes(config, share) {
            add(of_layer(layer, name), &shape, cut);
        }
    }
    if share.is_last() && share.rank == 0 {
        add(NORM.into(), &[config.hidden], Cut::Whole);
        if !(config.tied && share.is_first()) {
            add(head(config).into(), &table, Cut::Whole);
        }
    }
    needed
}

fn layer_shapes(config: &Config, share: &Share) -> [(&'static str, Vec<usize>, Cut); 9] {
    let (hidden, inner) = (config.hidden, config.feed_forward);
    let asking = config.heads * config.head_size;
    let asked = config.key_value_heads * config.head_size;
    let (part, parts) = (share.rank, share.ranks);
    let (rows, columns) = (Cut::Rows { part, parts }, Cut::Columns { part, parts });
    [
        ("input_layernorm", vec![hidden], Cut::Whole),
        ("self_attn.q_proj", vec![asking, hidden], rows),
        ("self_attn.k_proj", vec![asked, hidden], rows),
        ("self_attn.v_proj", vec![asked, hidden], rows),
        ("self_attn.o_proj", vec![hidden, asking], columns),
        ("post_attention_layernorm", vec![hidden], Cut::Whole),
        ("mlp.gate_proj", vec![inner, hidden], rows),
        ("mlp.up_proj", vec![inner, hidden], rows),
        ("mlp.down_proj", vec![hidden, inner], columns),
    ]
}

/// The tensors that were read, for the parts of the model to take.
pub(crate) struct Tensors<'p> {
    folder: &'p Path,
    read: BTreeMap<String, Tensor>,
}

impl<'p> Tensors<'p> {
    pub(crate) fn read(
        folder: &'p Path,
        weights: &Weights,
        config: &Config,
        share: &Share,
    ) -> Result<Self, LoadError> {
        let one = |Needed { name, shape, cut }| {
            let tensor = weights.read(&name, &shape, cut)?;
            Ok((name, tensor))
        };
        let read = needed(config, share).into_iter().map(one);
        let read = read.collect::<Result<_, LoadError>>()?;
        Ok(Tensors { folder, read })
    }

    /// Returns a tensor among those that the share needs.
    pub(crate) fn get(&self, name: &str) -> Result<Tensor, LoadError> {
        self.read.get(name).cloned().ok_or_else(|| LoadError::Missing {
            path: self.folder.to_owned(),
            tensor: name.to_owned(),
            nearest: Vec::new(),
        })
    }

    /// Returns the matrix of a projection as `x @ matrix` needs it: a view of its transpose.
    pub(crate) fn projection(&self, layer: usize, name: &str) -> Result<Tensor, LoadError> {
        Ok(self.get(&of_layer(layer, name))?.t()?)
    }
}
