//! A perceptron of three layers, 64-128-64-10 with ReLU: it maps pixels to one logit per class.

use std::ops::Range;
use std::path::Path;

use crate::data::{CLASSES, Digits, PIXELS, scaled};
use crate::weights::{LAYERS, WeightsError, WeightsFile};

/// The model.
#[derive(Clone, Debug)]
pub struct Mlp {
    layers: Vec<Dense>,
}

/// A layer: a matrix and a bias.
#[derive(Clone, Debug)]
pub struct Dense {
    /// The weights, `[in, out]`: one row for each input, so that the sums of all outputs grow side by side.
    rows: Vec<f32>,
    bias: Vec<f32>,
}

/// The error of pixels that are not whole images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{pixels} pixels are not a whole number of images of {PIXELS}")]
pub struct PartOfAnImage {
    /// The number of pixels.
    pub pixels: usize,
}

impl Dense {
    /// Creates a layer from weights `[out, in]` and one bias for each output.
    pub fn new(weights: &[f32], bias: Vec<f32>) -> Dense {
        let outputs = bias.len();
        let inputs = weights.len() / outputs.max(1);
        let column = |input: usize| weights.iter().skip(input).step_by(inputs).copied();
        Dense {
            rows: (0..inputs).flat_map(column).collect(),
            bias,
        }
    }

    fn forward(&self, inputs: &[f32]) -> Vec<f32> {
        let mut sums = self.bias.clone();
        for (input, weights) in inputs.iter().zip(self.rows.chunks_exact(self.bias.len().max(1))) {
            for (sum, weight) in sums.iter_mut().zip(weights) {
                *sum += input * weight;
            }
        }
        sums
    }
}

impl Mlp {
    /// Creates a model of these layers, with ReLU after each but the last.
    pub fn new(layers: Vec<Dense>) -> Mlp {
        Mlp { layers }
    }

    /// Loads a safetensors file with the tensors of [`LAYERS`].
    ///
    /// # Errors
    /// [`WeightsError`] states the mistake and its place.
    pub fn load(path: &Path) -> Result<Mlp, WeightsError> {
        let bytes = WeightsFile::read(path)?;
        let file = WeightsFile::parse(path, &bytes)?;
        let layer = |(weight, bias)| Ok(Dense::new(&file.tensor(weight)?, file.tensor(bias)?));
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
    /// [`PartOfAnImage`] for a number of pixels that is not a multiple of 64.
    pub fn logits(&self, pixels: &[f32]) -> Result<Vec<f32>, PartOfAnImage> {
        if !pixels.len().is_multiple_of(PIXELS) {
            return Err(PartOfAnImage { pixels: pixels.len() });
        }
        let images = pixels.chunks_exact(PIXELS);
        Ok(images.flat_map(|image| self.forward(image)).collect())
    }

    fn forward(&self, image: &[f32]) -> Vec<f32> {
        let mut x = image.to_vec();
        for (index, layer) in self.layers.iter().enumerate() {
            if index > 0 {
                x.iter_mut().for_each(|value| *value = value.max(0.0));
            }
            x = layer.forward(&x);
        }
        x
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
/// [`PartOfAnImage`] if the data's images have another size than the model's.
pub fn accuracy(model: &Mlp, digits: &Digits, rows: Range<usize>) -> Result<f64, PartOfAnImage> {
    let images = rows.clone().filter_map(|row| digits.image(row)).flatten();
    let pixels: Vec<f32> = images.map(|pixel| scaled(*pixel)).collect();
    let found = classes(&model.logits(&pixels)?);
    let labels = digits.labels(rows);
    let right = found.iter().zip(labels).filter(|(found, label)| found == label);
    Ok(right.count() as f64 / labels.len() as f64)
}
