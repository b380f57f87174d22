//! Recognises handwritten digits: load → preprocess → two model replicas, half a batch each → gather → report.
//!
//! `cargo run --release -p selvedge-examples --example digits -- [--placement inline|thread|process] [--model PATH]`
#![allow(unreachable_pub)] // an actor's operations are its public methods

use std::path::PathBuf;
use std::time::Instant;

use candle_core::{Device, Tensor as Candle};
use indicatif::{ProgressBar, ProgressDrawTarget};
use selvedge::prelude::*;
use selvedge_examples::data::{Digits, PIXELS, TRAINING_ROWS};
use selvedge_examples::model::{Mlp, classes, shipped_weights};

struct Loader(Digits);

#[actor]
impl Loader {
    pub fn new() -> Result<Self> {
        Ok(Loader(Digits::load()?))
    }

    /// The raw pixels of some rows: `[n, 64]`, values 0 to 16.
    pub fn images(&mut self, rows: &[u32]) -> Result<Tensor> {
        let pixels: Vec<u8> = rows
            .iter()
            .flat_map(|row| self.0.image(*row as usize))
            .copied()
            .collect();
        Ok(Tensor::from_vec(pixels, &[rows.len(), PIXELS])?)
    }
}

struct Preprocess;

#[actor]
impl Preprocess {
    pub fn new() -> Self {
        Preprocess
    }

    /// Scales to 0..1 and halves the batch.
    pub fn halves(&mut self, images: &Tensor) -> Result<(Tensor, Tensor)> {
        let scaled: Vec<f32> = images
            .as_slice::<u8>()?
            .iter()
            .map(|pixel| f32::from(*pixel) / 16.0)
            .collect();
        let rows = scaled.len() / PIXELS;
        let (first, second) = scaled.split_at(rows / 2 * PIXELS);
        let half = |values: &[f32]| Tensor::from_slice(values, &[values.len() / PIXELS, PIXELS]);
        Ok((half(first)?, half(second)?))
    }
}

struct Replica(Mlp);

#[actor]
impl Replica {
    pub fn new(weights: PathBuf) -> Result<Self> {
        Ok(Replica(Mlp::load(&weights)?))
    }

    pub fn classify(&mut self, images: &Tensor) -> Result<Vec<u8>> {
        let values = images.as_slice::<f32>()?;
        if values.is_empty() {
            return Ok(Vec::new());
        }
        let images = Candle::from_slice(values, (values.len() / PIXELS, PIXELS), &Device::Cpu)?;
        Ok(classes(&self.0.forward(&images)?)?)
    }
}

struct Report(Digits);

#[actor]
impl Report {
    pub fn new() -> Result<Self> {
        Ok(Report(Digits::load()?))
    }

    /// Gathers both halves: the classes found, and how many of them are right.
    pub fn gather(&mut self, rows: &[u32], first: &[u8], second: &[u8]) -> (Vec<u8>, usize) {
        let found: Vec<u8> = first.iter().chain(second).copied().collect();
        let labels = rows.iter().filter_map(|row| self.0.labels.get(*row as usize));
        let right = found
            .iter()
            .zip(labels)
            .filter(|(found, label)| found == label)
            .count();
        (found, right)
    }
}

/// The value after `--name`.
fn option(name: &str) -> Option<String> {
    std::env::args().skip_while(|argument| argument != name).nth(1)
}

fn main() -> Result<()> {
    let placement: Placement = option("--placement").as_deref().unwrap_or("thread").parse()?;
    let weights = option("--model").map_or_else(shipped_weights, PathBuf::from);
    let runtime = Runtime::new();
    let loader = runtime.spawn::<Loader>("loader", ()).place(placement)?;
    let preprocess = runtime.spawn::<Preprocess>("preprocess", ()).place(placement)?;
    let replica = |name: &str| {
        runtime
            .spawn::<Replica>(name, (weights.clone(),))
            .env("RAYON_NUM_THREADS", "1")
            .place(placement)
    };
    let (left, right) = (replica("replica0")?, replica("replica1")?);
    let report = runtime.spawn::<Report>("report", ()).place(placement)?;
    let graph = runtime.compile(|rows: Edge<Vec<u32>>| {
        let (first, second) = preprocess.halves(&loader.images(&rows)).split();
        report.gather(&rows, &left.classify(&first), &right.classify(&second))
    })?;

    let rows: Vec<u32> = (TRAINING_ROWS as u32..Digits::load()?.rows() as u32).collect();
    let repeats = 20;
    let batches: Vec<Vec<u32>> = rows.chunks(16).map(<[u32]>::to_vec).collect();
    let executions = batches.len() * repeats;
    let bar = ProgressBar::with_draw_target(Some(executions as u64), ProgressDrawTarget::stderr());
    let (started, mut right, mut checksum) = (Instant::now(), 0, 0u64);
    for result in graph.map((0..repeats).flat_map(|_| batches.iter().cloned())) {
        let (found, correct) = result?;
        right += correct;
        checksum = found.iter().fold(checksum, |sum, class| {
            sum.wrapping_mul(31).wrapping_add(u64::from(*class))
        });
        bar.inc(1);
    }
    bar.finish_and_clear();
    let accuracy = right as f64 / (rows.len() * repeats) as f64;
    println!(
        "placement {placement}: accuracy {accuracy:.4} on {} held-out rows, checksum {checksum:016x}",
        rows.len()
    );
    println!(
        "{:.0} executions a second, 16 images each",
        executions as f64 / started.elapsed().as_secs_f64()
    );
    if accuracy < 0.92 {
        Err("the accuracy is below 0.92".into())
    } else {
        Ok(())
    }
}
