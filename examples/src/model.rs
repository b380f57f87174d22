//! A perceptron of three layers, 64-128-64-10 with ReLU, in candle: it maps pixels to one logit per class.

use std::ops::Range;
use std::path::Path;

use candle_core::{Device, Module, Tensor};
use candle_nn::Linear;

use crate::data::{CLASSES, Digits, PIXELS, scaled};
use crate::weights::{LAYERS, WeightsError, WeightsFile};

/// The model.
#[derive(Clone, Debug)]
pub struct Mlp {
    layers: Vec<Linear>,
}

impl Mlp {
    /// Creates a model of these layers, with ReLU after each but the last.
    pub fn new(layers: Vec<Linear>) -> Mlp {
        Mlp { layers }
    }

    /// Loads a safetensors file with the tensors of [`LAYERS`].
    ///
    /// # Errors
    /// [`WeightsError`] states the mistake and its place.
    pub fn load(path: &Path) -> Result<Mlp, WeightsError> {
        let file = WeightsFile::read(path)?;
        let layer = |(weight, bias)| Ok(Linear::new(file.tensor(weight)?, Some(file.tensor(bias)?)));
        LAYERS
            .into_iter()
            .map(layer)
            .collect::<Result<_, _>>()
            .map(Mlp::new)
    }

    /// Returns the logits `[n, 10]`, row by row, of images `[n, 64]` with pixels from 0 to 1; empty if there are no
    /// images.
    ///
    /// # Errors
    /// Candle's error for a number of pixels that is not a multiple of 64.
    pub fn logits(&self, pixels: &[f32]) -> candle_core::Result<Vec<f32>> {
        if pixels.is_empty() {
            return Ok(Vec::new());
        }
        let images = Tensor::from_slice(pixels, (pixels.len() / PIXELS, PIXELS), &Device::Cpu)?;
        self.forward(&images)?.flatten_all()?.to_vec1()
    }
}

impl Module for Mlp {
    fn forward(&self, images: &Tensor) -> candle_core::Result<Tensor> {
        let Some((last, hidden)) = self.layers.split_last() else {
            return Ok(images.clone());
        };
        let mut x = images.clone();
        for layer in hidden {
            x = layer.forward(&x)?.relu()?;
        }
        last.forward(&x)
    }
}

/// Returns the class with the largest logit of each row; the first of equal ones.
pub fn classes(logits: &[f32]) -> Vec<u8> {
    let best = |row: &[f32]| {
        let ahead = |best: (u8, f32), next: (u8, f32)| if next.1 > best.1 { next } else { best };
        (0..).zip(row.iter().copied()).fold((0, f32::MIN), ahead).0
    };
    logits.chunks_exact(CLASSES).map(best).collect()
}

/// Returns the fraction of some rows that the model recognises.
///
/// # Errors
/// The errors of candle.
pub fn accuracy(model: &Mlp, digits: &Digits, rows: Range<usize>) -> candle_core::Result<f64> {
    let images = rows.clone().filter_map(|row| digits.image(row)).flatten();
    let pixels: Vec<f32> = images.map(|pixel| scaled(*pixel)).collect();
    let found = classes(&model.logits(&pixels)?);
    let labels = digits.labels(rows);
    let right = found.iter().zip(labels).filter(|(found, label)| found == label);
    Ok(right.count() as f64 / labels.len() as f64)
}
