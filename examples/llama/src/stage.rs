//! The actor: a share of the model on a lane. A stage with one rank does its part of a step in one task; ranks that
//! share a stage have a task for every half of a layer, with a sum between the tasks.

use std::path::PathBuf;

use candle_core::Device;
use selvedge::prelude::*;

use crate::decoder::Decoder;
use crate::error::LoadError;
use crate::folder::Folder;
use crate::layer::Room;
use crate::share::Share;
use crate::step::{Batch, Sampled};
use crate::watch::StepError;

/// A share of the model, as an actor.
pub struct Stage(Decoder);

/// Reads hidden states from an edge. They are copied, because candle owns its operands.
fn read(x: &Tensor) -> Result<candle_core::Tensor, StepError> {
    Ok(candle_core::Tensor::from_slice(
        x.as_slice::<f32>()?,
        x.shape(),
        &Device::Cpu,
    )?)
}

/// Writes hidden states for an edge.
fn write(x: &candle_core::Tensor) -> Result<Tensor, StepError> {
    let x = x.contiguous()?;
    let (storage, layout) = x.storage_and_layout();
    let candle_core::Storage::Cpu(storage) = &*storage else {
        return Err(StepError::NotHere { what: "a device" });
    };
    let all = storage.as_slice::<f32>()?;
    let own = layout
        .contiguous_offsets()
        .and_then(|(from, to)| all.get(from..to));
    Ok(Tensor::from_slice(own.unwrap_or_default(), layout.dims())?)
}

#[actor]
impl Stage {
    /// Loads a share of the model in a folder.
    pub fn new(folder: PathBuf, share: Share, room: Room) -> Result<Self, LoadError> {
        let folder = Folder::open(folder)?;
        Decoder::load(&folder, share, room).map(Stage)
    }

    /// Runs the whole model.
    pub fn whole(&mut self, batch: &Batch) -> Result<Vec<Sampled>, StepError> {
        self.0.step(batch)
    }

    /// Runs the first of several stages.
    pub fn first(&mut self, batch: &Batch) -> Result<Tensor, StepError> {
        write(&self.0.run(None, batch)?)
    }

    /// Runs a stage between others.
    pub fn middle(&mut self, x: &Tensor, batch: &Batch) -> Result<Tensor, StepError> {
        write(&self.0.run(Some(read(x)?), batch)?)
    }

    /// Runs the last of several stages.
    pub fn last(&mut self, x: &Tensor, batch: &Batch) -> Result<Vec<Sampled>, StepError> {
        let x = self.0.run(Some(read(x)?), batch)?;
        self.0.finish(&x, batch)
    }

    /// Runs the beginning of the model, equal in all ranks.
    pub fn embed(&mut self, batch: &Batch) -> Result<Tensor, StepError> {
        self.0.begin(batch)?;
        write(&self.0.embed(batch)?)
    }

    /// Runs a rank's part of the attention of a layer.
    pub fn attention(&mut self, x: &Tensor, #[constant] layer: usize) -> Result<Tensor, StepError> {
        write(&self.0.attention(layer, &read(x)?)?)
    }

    /// Runs a rank's part of the attention of the first layer in a stage that is not the first.
    pub fn enter(
        &mut self,
        x: &Tensor,
        batch: &Batch,
        #[constant] layer: usize,
    ) -> Result<Tensor, StepError> {
        self.0.begin(batch)?;
        write(&self.0.attention(layer, &read(x)?)?)
    }

    /// Runs a rank's part of the feed-forward network of a layer.
    pub fn mlp(&mut self, x: &Tensor, #[constant] layer: usize) -> Result<Tensor, StepError> {
        write(&self.0.mlp(layer, &read(x)?)?)
    }

    /// Runs the end of the model.
    pub fn head(&mut self, x: &Tensor, batch: &Batch) -> Result<Vec<Sampled>, StepError> {
        self.0.finish(&read(x)?, batch)
    }

    /// Returns the logits of the last step, `[parts, vocabulary]`; an empty tensor if there are none.
    pub fn logits(&mut self) -> Result<Tensor, StepError> {
        match self.0.logits() {
            Some(logits) => write(logits),
            None => Ok(Tensor::zeros::<f32>(&[0, 0])?),
        }
    }

    /// Returns the bytes of weights that were read from the files.
    pub fn weight_bytes(&mut self) -> u64 {
        self.0.weight_bytes()
    }
}
