//! Trains the model of the digits example with candle, and writes its weights. Seeded: the same file every time.
//!
//! `cargo run --release -p selvedge-examples --example digits_train`

use candle_core::{DType, Device, Tensor, Var};
use candle_nn::{AdamW, Optimizer, ParamsAdamW, loss};
use selvedge_examples::data::{Digits, PIXELS, TRAINING_ROWS};
use selvedge_examples::model::{Mlp, WEIGHTS, classes, shipped_weights};
use sha2::{Digest, Sha256};

const SEED: u64 = 20_260_611;
const EPOCHS: usize = 400;
const BATCH: usize = 64;

/// xorshift64*: small, seeded, the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 33) as usize % limit
    }

    /// Uniform between -1 and 1.
    fn signed(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

/// An image moved by a pixel at most, with a little noise: what handwriting does.
fn augmented(image: &[u8], random: &mut Random) -> Vec<f32> {
    let (dx, dy) = (random.below(3) as i32 - 1, random.below(3) as i32 - 1);
    let pixel = |index: usize, random: &mut Random| {
        let (x, y) = (index as i32 % 8 - dx, index as i32 / 8 - dy);
        let inside = (0..8).contains(&x) && (0..8).contains(&y);
        let value = if inside {
            image.get((y * 8 + x) as usize).copied().unwrap_or(0)
        } else {
            0
        };
        f32::from(value) / 16.0 + 0.05 * random.signed()
    };
    (0..PIXELS).map(|index| pixel(index, random)).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (device, digits, mut random) = (Device::Cpu, Digits::load()?, Random(SEED));
    let mut weights = Vec::new();
    for (_, shape) in WEIGHTS {
        let count: usize = shape.iter().product();
        let fan_in = shape.last().copied().unwrap_or(1) as f32;
        let scale = if shape.len() == 2 {
            (6.0 / fan_in).sqrt()
        } else {
            0.0
        };
        let values: Vec<f32> = (0..count).map(|_| random.signed() * scale).collect();
        weights.push(Var::from_tensor(&Tensor::from_vec(values, shape, &device)?)?);
    }
    let model = Mlp::new(weights.iter().map(|weight| weight.as_tensor().clone()).collect());
    let parameters = ParamsAdamW {
        lr: 3e-3,
        weight_decay: 1e-3,
        ..ParamsAdamW::default()
    };
    let mut optimizer = AdamW::new(weights.clone(), parameters)?;
    for epoch in 0..EPOCHS {
        optimizer.set_learning_rate(3e-3 * (1.0 - epoch as f64 / EPOCHS as f64));
        let mut order: Vec<usize> = (0..TRAINING_ROWS).collect();
        for index in (1..order.len()).rev() {
            order.swap(index, random.below(index + 1));
        }
        for rows in order.chunks(BATCH) {
            let images: Vec<f32> = rows
                .iter()
                .flat_map(|row| augmented(digits.image(*row), &mut random))
                .collect();
            let labels: Vec<u32> = rows
                .iter()
                .filter_map(|row| digits.labels.get(*row))
                .map(|label| u32::from(*label))
                .collect();
            let images = Tensor::from_vec(images, (rows.len(), PIXELS), &device)?;
            let labels = Tensor::from_vec(labels, rows.len(), &device)?;
            optimizer.backward_step(&loss::cross_entropy(&model.forward(&images)?, &labels)?)?;
        }
    }
    let held_out: Vec<f32> = (TRAINING_ROWS..digits.rows())
        .flat_map(|row| digits.image(row))
        .map(|pixel| f32::from(*pixel) / 16.0)
        .collect();
    let count = digits.rows() - TRAINING_ROWS;
    let found = classes(&model.forward(&Tensor::from_vec(held_out, (count, PIXELS), &device)?)?)?;
    let labels = digits.labels.iter().skip(TRAINING_ROWS);
    let right = found
        .iter()
        .zip(labels)
        .filter(|(found, label)| found == label)
        .count();
    let tensors = WEIGHTS
        .iter()
        .zip(&weights)
        .map(|((name, _), weight)| Ok((name.to_string(), weight.to_dtype(DType::F32)?)));
    let path = shipped_weights();
    candle_core::safetensors::save(&tensors.collect::<candle_core::Result<_>>()?, &path)?;
    println!(
        "seed {SEED}, {EPOCHS} epochs, held-out accuracy {:.4} ({right} of {count})",
        right as f64 / count as f64
    );
    let digest = Sha256::digest(std::fs::read(&path)?);
    println!(
        "{}  {}",
        digest
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>(),
        path.display()
    );
    Ok(())
}
