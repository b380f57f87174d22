//! A share of the model with its caches: the state of an actor, also usable in a plain loop.

use candle_core::{Device, Tensor};
use selvedge_training::one_thread::compute_on_this_thread;

use crate::config::Config;
use crate::error::LoadError;
use crate::folder::Folder;
use crate::frame::Frame;
use crate::layer::{Layer, Norm, Room};
use crate::rope::Angles;
use crate::sampling::sample;
use crate::share::Share;
use crate::step::{Batch, Sampled};
use crate::tensors::{EMBEDDING, NORM, Tensors, head};
use crate::watch::{StepError, Watch};

/// A loaded share of the model.
///
/// Its methods are the parts of a step, in this order: [`begin`](Self::begin), [`embed`](Self::embed) in the first
/// stage, then [`attention`](Self::attention) and [`mlp`](Self::mlp) of each layer, [`finish`](Self::finish) in the
/// last stage. Hidden states are `[tokens, hidden]`, with the tokens of all parts one after the other. For a stage with
/// one rank, [`run`](Self::run) does everything up to the head.
pub struct Decoder {
    share: Share,
    layers: Vec<Layer>,
    first_layer: usize,
    embedding: Option<Tensor>,
    head: Option<Head>,
    angles: Angles,
    watch: Watch,
    frame: Option<Frame>,
    logits: Option<Tensor>,
    weight_bytes: u64,
}

struct Head {
    norm: Norm,
    matrix: Tensor,
}

impl Decoder {
    /// Reads a share's slices of the weights and allocates the caches.
    ///
    /// # Errors
    /// The errors of [`Folder::check`], and [`LoadError::Candle`].
    pub fn load(folder: &Folder, share: Share, room: Room) -> Result<Self, LoadError> {
        compute_on_this_thread();
        folder.check(&share)?;
        let (config, before) = (&folder.config, folder.weights.read_bytes());
        let tensors = Tensors::read(&folder.path, &folder.weights, config, &share)?;
        let range = share.layers(config.layers);
        let first_layer = range.start;
        let layers = range.map(|layer| Layer::load(&tensors, config, &share, layer, room));
        let has_head = share.is_last() && share.rank == 0;
        Ok(Decoder {
            share,
            layers: layers.collect::<Result<_, _>>()?,
            first_layer,
            embedding: share.is_first().then(|| tensors.get(EMBEDDING)).transpose()?,
            head: has_head.then(|| Head::load(&tensors, config)).transpose()?,
            angles: Angles::new(config, room.positions)?,
            watch: Watch::new(config.vocabulary, room),
            frame: None,
            logits: None,
            weight_bytes: folder.weights.read_bytes() - before,
        })
    }

    /// Returns the bytes of weights that were read from the files.
    #[must_use]
    pub fn weight_bytes(&self) -> u64 {
        self.weight_bytes
    }

    /// Returns the logits of the last token of each part that asked for sampling, in the last step: `[parts,
    /// vocabulary]`. `None` if no part asked, and in ranks that compute no logits.
    #[must_use]
    pub fn logits(&self) -> Option<&Tensor> {
        self.logits.as_ref()
    }

    /// Checks a batch against the caches, and computes the data of the batch that all layers need.
    ///
    /// # Errors
    /// [`StepError`]; the caches are unchanged.
    pub fn begin(&mut self, batch: &Batch) -> Result<(), StepError> {
        self.frame = None;
        self.logits = None;
        self.watch.admit(batch)?;
        self.frame = Some(Frame::new(batch, &self.angles)?);
        Ok(())
    }

    /// Returns the rows of the embedding for all tokens.
    ///
    /// # Errors
    /// [`StepError::NotHere`] except in the first stage, [`StepError::Candle`].
    pub fn embed(&self, batch: &Batch) -> Result<Tensor, StepError> {
        let embedding = self.embedding.as_ref().ok_or(StepError::NotHere {
            what: "the embedding",
        })?;
        let tokens: Vec<u32> = batch
            .parts
            .iter()
            .flat_map(|part| part.tokens.iter().copied())
            .collect();
        Ok(embedding.index_select(&Tensor::new(tokens, &Device::Cpu)?, 0)?)
    }

    /// Returns this rank's part of the hidden states after the attention of a layer (counted over the whole model); the
    /// sum over the ranks is the result.
    ///
    /// # Errors
    /// [`StepError::NotHere`], [`StepError::Candle`].
    pub fn attention(&self, layer: usize, x: &Tensor) -> Result<Tensor, StepError> {
        let frame = self.frame.as_ref().ok_or(StepError::NotHere { what: "a step" })?;
        Ok(self.layer(layer)?.attention(x, frame)?)
    }

    /// Returns this rank's part of the hidden states after the feed-forward network of a layer; the sum over the ranks
    /// is the result.
    ///
    /// # Errors
    /// The errors of [`attention`](Self::attention).
    pub fn mlp(&self, layer: usize, x: &Tensor) -> Result<Tensor, StepError> {
        Ok(self.layer(layer)?.mlp(x)?)
    }

    fn layer(&self, layer: usize) -> Result<&Layer, StepError> {
        let index = layer.checked_sub(self.first_layer);
        let layer = index.and_then(|index| self.layers.get(index));
        layer.ok_or(StepError::NotHere { what: "the layer" })
    }

    /// Returns the tokens of the parts that asked for sampling, in the order of the parts, and keeps the logits for
    /// [`logits`](Self::logits).
    ///
    /// # Errors
    /// [`StepError::NotHere`] except in rank 0 of the last stage, [`StepError::Candle`].
    pub fn finish(&mut self, x: &Tensor, batch: &Batch) -> Result<Vec<Sampled>, StepError> {
        let head = self
            .head
            .as_ref()
            .ok_or(StepError::NotHere { what: "the head" })?;
        let ends = batch.parts.iter().scan(0, |end, part| {
            *end += part.tokens.len() as u32;
            Some((part, *end - 1))
        });
        let (parts, rows): (Vec<_>, Vec<u32>) = ends.filter(|(part, _)| part.sampling.is_some()).unzip();
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let logits = head.logits(&x.index_select(&Tensor::new(rows, &Device::Cpu)?, 0)?)?;
        let rows = logits.to_vec2::<f32>()?;
        self.logits = Some(logits);
        let sampled = parts.iter().zip(&rows).filter_map(|(part, row)| {
            let position = part.start + part.tokens.len() as u32;
            Some(sample(part.slot, position, row, part.sampling.as_ref()?))
        });
        Ok(sampled.collect())
    }

    /// Runs all of a stage with one rank, up to the head: the first stage begins with the tokens, other stages with
    /// hidden states.
    ///
    /// # Errors
    /// [`StepError`].
    pub fn run(&mut self, x: Option<Tensor>, batch: &Batch) -> Result<Tensor, StepError> {
        debug_assert_eq!(self.share.ranks, 1, "ranks have to be summed over");
        self.begin(batch)?;
        let mut x = match x {
            Some(x) => x,
            None => self.embed(batch)?,
        };
        let frame = self.frame.as_ref().ok_or(StepError::NotHere { what: "a step" })?;
        for layer in &self.layers {
            x = layer.attention(&x, frame)?;
            x = layer.mlp(&x)?;
        }
        Ok(x)
    }

    /// Runs a whole step of a whole model.
    ///
    /// # Errors
    /// [`StepError`].
    pub fn step(&mut self, batch: &Batch) -> Result<Vec<Sampled>, StepError> {
        let x = self.run(None, batch)?;
        self.finish(&x, batch)
    }
}

impl Head {
    fn load(tensors: &Tensors<'_>, config: &Config) -> Result<Self, LoadError> {
        Ok(Head {
            norm: Norm::load(tensors, NORM, config)?,
            matrix: tensors.get(head(config))?.t()?,
        })
    }

    fn logits(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        self.norm.of(x)?.matmul(&self.matrix)
    }
}
