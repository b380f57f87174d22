//! Trains the model of the digits example and writes its weights: seeded, on one core, in well under a minute.
//!
//! `cargo run --release -p selvedge-training --bin digits_train -- [--out PATH] [--seed N] [--validate]`
//!
//! The constants below were chosen with `--validate`, which trains on the first 1 200 rows and measures on the other
//! 238 rows for training. The held-out rows are used once, at the end.

use std::error::Error;
use std::f64::consts::PI;
use std::ops::Range;
use std::path::PathBuf;

use candle_core::{Device, Tensor, Var};
use candle_nn::{AdamW, Linear, Optimizer, ParamsAdamW, loss};
use clap::Parser;
use selvedge_examples::data::{Digits, PIXELS, TRAINING_ROWS};
use selvedge_examples::model::accuracy;
use selvedge_examples::random::Random;
use selvedge_examples::weights::{LAYERS, Weight, shipped_weights};
use selvedge_training::one_thread::keep_candle_to_one_thread;
use selvedge_training::perceptron::{forward, trained};
use selvedge_training::trainer::augmented;
use sha2::{Digest, Sha256};

const COMMAND: &str = "cargo run --release -p selvedge-training --bin digits_train";
const EPOCHS: usize = 300;
const BATCH: usize = 64;
const LEARNING_RATE: f64 = 3e-3;
const WEIGHT_DECAY: f64 = 1e-2;

#[derive(Parser)]
struct Arguments {
    /// The file to write the weights to; by default the one that the digits example reads.
    #[arg(long, default_value_os_t = shipped_weights())]
    out: PathBuf,
    /// The seed; equal seeds give equal files on the same kind of processor.
    #[arg(long, default_value_t = 20_261_120)]
    seed: u64,
    /// Only measure, on the last of the rows for training.
    #[arg(long)]
    validate: bool,
}

/// Creates a parameter: a weight of He's width (2015), which keeps the variance through ReLU, or a bias that starts at
/// 0.
fn parameter(weight: Weight, random: &mut Random) -> candle_core::Result<Var> {
    let width = match weight.shape {
        [_, inputs] => (6.0 / *inputs as f32).sqrt(),
        _ => 0.0,
    };
    let count = weight.shape.iter().product();
    let values: Vec<f32> = (0..count).map(|_| width * random.signed()).collect();
    Var::from_vec(values, weight.shape, &Device::Cpu)
}

/// Parameters with the names of their tensors.
type Named = Vec<(&'static str, Var)>;

/// Creates layers, and their parameters, which the optimizer changes.
fn untrained(random: &mut Random) -> candle_core::Result<(Vec<Linear>, Named)> {
    let (mut layers, mut vars) = (Vec::new(), Vec::new());
    for (weight, bias) in LAYERS {
        let (w, b) = (parameter(weight, random)?, parameter(bias, random)?);
        layers.push(Linear::new(w.as_tensor().clone(), Some(b.as_tensor().clone())));
        vars.extend([(weight.name, w), (bias.name, b)]);
    }
    Ok((layers, vars))
}

fn train(
    layers: &[Linear],
    vars: Vec<Var>,
    digits: &Digits,
    rows: Range<usize>,
    random: &mut Random,
) -> candle_core::Result<()> {
    let parameters = ParamsAdamW {
        weight_decay: WEIGHT_DECAY,
        ..ParamsAdamW::default()
    };
    let mut optimizer = AdamW::new(vars, parameters)?;
    let mut order: Vec<usize> = rows.collect();
    for epoch in 0..EPOCHS {
        // Half a cosine, from the full rate to zero (Loshchilov and Hutter, 2017).
        optimizer.set_learning_rate(LEARNING_RATE * (1.0 + (PI * epoch as f64 / EPOCHS as f64).cos()) / 2.0);
        random.shuffle(&mut order);
        for batch in order.chunks(BATCH) {
            let images = batch.iter().filter_map(|row| digits.image(*row));
            let images: Vec<f32> = images.flat_map(|image| augmented(image, random)).collect();
            let labels = batch.iter().filter_map(|row| digits.label(*row));
            let labels: Vec<u32> = labels.map(u32::from).collect();
            let images = Tensor::from_vec(images, (batch.len(), PIXELS), &Device::Cpu)?;
            let labels = Tensor::from_vec(labels, batch.len(), &Device::Cpu)?;
            optimizer.backward_step(&loss::cross_entropy(&forward(layers, &images)?, &labels)?)?;
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    keep_candle_to_one_thread();
    let arguments = Arguments::parse();
    let (digits, mut random) = (Digits::load()?, Random::new(arguments.seed));
    let (layers, named) = untrained(&mut random)?;
    let (training, measured) = match arguments.validate {
        true => (0..1200, 1200..TRAINING_ROWS),
        false => (0..TRAINING_ROWS, digits.held_out()),
    };
    let vars = named.iter().map(|(_, var)| var.clone()).collect();
    train(&layers, vars, &digits, training, &mut random)?;
    let accuracy = accuracy(&trained(&layers)?, &digits, measured.clone())?;
    println!("accuracy {accuracy:.4} on rows {measured:?}, {EPOCHS} epochs");
    if arguments.validate {
        return Ok(());
    }
    let tensors = named
        .into_iter()
        .map(|(name, var)| (name.to_string(), var.into_inner()));
    candle_core::safetensors::save(&tensors.collect(), &arguments.out)?;
    let digest = Sha256::digest(std::fs::read(&arguments.out)?);
    println!("sha256   {digest:x}  {}", arguments.out.display());
    println!("seed     {}", arguments.seed);
    println!("command  {COMMAND} -- --seed {}", arguments.seed);
    Ok(())
}
