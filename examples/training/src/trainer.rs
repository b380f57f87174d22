//! Stochastic gradient descent with momentum on the digits' perceptron, layer by layer: the gradient of a layer is
//! known before that of the layer in front of it, so that it can be summed over ranks in the meantime.
//!
//! The computation is in `f64`: a unit whose value is 0 except for rounding opens or closes depending on the order of a
//! sum, which differs with the number of ranks. In `f32` the losses diverge within some hundred steps.

use std::f64::consts::PI;
use std::ops::Range;

use candle_core::{D, DType, Device, Error, Result, Tensor};
use candle_nn::ops::softmax;
use candle_nn::{Linear, Module};

use selvedge_examples::data::{CLASSES, Digits, PIXELS, SIDE, TRAINING_ROWS, scaled};
use selvedge_examples::model::accuracy;
use selvedge_examples::random::Random;
use selvedge_examples::weights::LAYERS;

use crate::perceptron::trained;

/// The rows of a step, of all ranks together.
pub const BATCH: usize = 64;
const LEARNING_RATE: f64 = 0.1;
const MOMENTUM: f64 = 0.9;
/// Half of the width of the noise on a pixel, as a fraction of the darkest value.
const NOISE: f32 = 0.2;

/// Returns the image moved by at most a pixel, with a little noise, as a variation of handwriting.
pub fn augmented(image: &[u8], random: &mut Random) -> Vec<f32> {
    let (dx, dy) = (random.below(3), random.below(3));
    let moved = |at: usize| {
        // One more than the coordinates in the source, so that no coordinate is negative.
        let (x, y) = (at % SIDE + dx, at / SIDE + dy);
        let inside = (1..=SIDE).contains(&x) && (1..=SIDE).contains(&y);
        let pixel = inside.then(|| image.get((y - 1) * SIDE + x - 1)).flatten();
        scaled(pixel.copied().unwrap_or(0))
    };
    (0..PIXELS)
        .map(|at| moved(at) + NOISE * random.signed())
        .collect()
}

/// A layer: its parameters, their last changes, and its last input and output.
struct Layer {
    weight: Tensor,
    bias: Tensor,
    moved: (Tensor, Tensor),
    input: Tensor,
    output: Tensor,
}

/// One rank's model and its part of the data.
pub struct Trainer {
    digits: Digits,
    rank: usize,
    ranks: usize,
    steps: u32,
    /// The learning rate of the step in progress.
    rate: f64,
    layers: Vec<Layer>,
    /// The gradient of the loss with respect to the output of the next layer to go backward.
    upstream: Tensor,
}

impl Trainer {
    /// Creates rank `rank` of `ranks` for `steps` steps; equal seeds give equal models.
    ///
    /// # Errors
    /// The errors of candle, and data that cannot be read.
    pub fn new(rank: usize, ranks: usize, steps: u32, seed: u64) -> Result<Self> {
        let mut random = Random::new(seed);
        let nothing = Tensor::zeros(1, DType::F64, &Device::Cpu)?;
        let mut layers = Vec::new();
        for (weight, bias) in LAYERS {
            let (&[outputs, inputs], &[_]) = (weight.shape, bias.shape) else {
                candle_core::bail!("a layer is a matrix and a vector");
            };
            // He's width (2015), which keeps the variance through ReLU.
            let width = (6.0 / inputs as f64).sqrt();
            let values = (0..outputs * inputs).map(|_| width * f64::from(random.signed()));
            let values: Vec<f64> = values.collect();
            let weight = Tensor::from_vec(values, (outputs, inputs), &Device::Cpu)?;
            let bias = Tensor::zeros(outputs, DType::F64, &Device::Cpu)?;
            layers.push(Layer {
                moved: (weight.zeros_like()?, bias.zeros_like()?),
                weight,
                bias,
                input: nothing.clone(),
                output: nothing.clone(),
            });
        }
        let digits = Digits::load().map_err(candle_core::Error::wrap)?;
        Ok(Trainer {
            digits,
            rank,
            ranks,
            steps,
            rate: LEARNING_RATE,
            layers,
            upstream: nothing,
        })
    }

    /// Returns the number of layers.
    pub fn depth(&self) -> usize {
        self.layers.len()
    }

    /// Returns this rank's rows of a step: of each batch, rank r takes the rows r, r + `ranks`, and so on.
    fn rows(&self, step: u32) -> impl Iterator<Item = usize> {
        let (rank, ranks) = (self.rank, self.ranks);
        let batch = step as usize * BATCH..(step as usize + 1) * BATCH;
        // A stride that has no common factor with the number of rows visits all rows before it repeats one.
        batch.map(|at| at * 523 % TRAINING_ROWS).skip(rank).step_by(ranks)
    }

    /// Sends this rank's part of a batch through the model; returns its part of the mean loss (cross entropy).
    ///
    /// # Errors
    /// The errors of candle.
    pub fn forward(&mut self, step: u32) -> Result<f64> {
        // Half a cosine, from the full rate to zero (Loshchilov and Hutter, 2017).
        self.rate = LEARNING_RATE * (1.0 + (PI * f64::from(step) / f64::from(self.steps.max(1))).cos()) / 2.0;
        let rows: Vec<usize> = self.rows(step).collect();
        // The variation of an image depends on the step and the row, not on the rank that has it.
        let random = |row: usize| Random::new((u64::from(step) << 32 | row as u64) + 1);
        let image = |row: &usize| Some(augmented(self.digits.image(*row)?, &mut random(*row)));
        let images: Vec<f64> = rows.iter().filter_map(image).flatten().map(f64::from).collect();
        let mut x = Tensor::from_vec(images, (rows.len(), PIXELS), &Device::Cpu)?;
        let last = self.layers.len().saturating_sub(1);
        for (index, layer) in self.layers.iter_mut().enumerate() {
            layer.input = x;
            let linear = Linear::new(layer.weight.clone(), Some(layer.bias.clone()));
            layer.output = linear.forward(&layer.input)?;
            x = if index < last {
                layer.output.relu()?
            } else {
                layer.output.clone()
            };
        }
        let mut right = vec![0.0_f64; rows.len() * CLASSES];
        for (row, wanted) in rows.iter().zip(right.chunks_exact_mut(CLASSES)) {
            let label = self.digits.label(*row).map(usize::from);
            if let Some(place) = label.and_then(|label| wanted.get_mut(label)) {
                *place = 1.0;
            }
        }
        let right = Tensor::from_vec(right, (rows.len(), CLASSES), &Device::Cpu)?;
        let found = softmax(&x, D::Minus1)?;
        let share = 1.0 / BATCH as f64;
        self.upstream = ((&found - &right)? * share)?;
        let loss = (found.log()? * right)?.sum_all()?.to_scalar::<f64>()?;
        Ok(-loss * share)
    }

    /// Returns the gradient of a layer, weights before biases. Call it for the last layer first, then for each layer in
    /// front of it.
    ///
    /// # Errors
    /// The errors of candle.
    pub fn backward(&mut self, layer: usize) -> Result<Vec<f64>> {
        let Some(this) = self.layers.get(layer) else {
            candle_core::bail!("there is no layer {layer}");
        };
        let weight = self.upstream.t()?.matmul(&this.input)?;
        let bias = self.upstream.sum(0)?;
        if let Some(before) = layer.checked_sub(1).and_then(|before| self.layers.get(before)) {
            let open = before.output.gt(0.0)?.to_dtype(DType::F64)?;
            self.upstream = (self.upstream.matmul(&this.weight)? * open)?;
        }
        let mut gradient = weight.flatten_all()?.to_vec1::<f64>()?;
        gradient.extend(bias.to_vec1::<f64>()?);
        Ok(gradient)
    }

    /// Updates a layer by its gradient over all ranks.
    ///
    /// # Errors
    /// The errors of candle, and a gradient of another layer.
    pub fn update(&mut self, layer: usize, gradient: &[f64]) -> Result<()> {
        let rate = self.rate;
        let Some(this) = self.layers.get_mut(layer) else {
            candle_core::bail!("there is no layer {layer}");
        };
        let (weight, bias) = gradient.split_at(this.weight.elem_count().min(gradient.len()));
        let weight = Tensor::from_slice(weight, this.weight.shape(), &Device::Cpu)?;
        let bias = Tensor::from_slice(bias, this.bias.shape(), &Device::Cpu)?;
        this.moved = (
            ((&this.moved.0 * MOMENTUM)? + weight)?,
            ((&this.moved.1 * MOMENTUM)? + bias)?,
        );
        this.weight = (&this.weight - (&this.moved.0 * rate)?)?;
        this.bias = (&this.bias - (&this.moved.1 * rate)?)?;
        Ok(())
    }

    /// Returns the fraction of some rows that the model recognises.
    ///
    /// # Errors
    /// The errors of candle.
    pub fn accuracy(&self, rows: Range<usize>) -> Result<f64> {
        let layer = |layer: &Layer| Linear::new(layer.weight.clone(), Some(layer.bias.clone()));
        let layers: Vec<Linear> = self.layers.iter().map(layer).collect();
        accuracy(&trained(&layers)?, &self.digits, rows).map_err(Error::wrap)
    }

    /// Returns the rows that no step takes.
    pub fn held_out(&self) -> Range<usize> {
        self.digits.held_out()
    }

    /// Returns all parameters, bit for bit.
    ///
    /// # Errors
    /// The errors of candle.
    pub fn bits(&self) -> Result<Vec<u64>> {
        let mut bits = Vec::new();
        for layer in &self.layers {
            for tensor in [&layer.weight, &layer.bias] {
                bits.extend(
                    tensor
                        .flatten_all()?
                        .to_vec1::<f64>()?
                        .into_iter()
                        .map(f64::to_bits),
                );
            }
        }
        Ok(bits)
    }
}
