//! Recognises handwritten digits: load → preprocess → two model replicas → vote → report.
//!
//! The program demonstrates actors whose constructors may fail, a tuple result that is split, a value that two tasks
//! read, several results of a graph, and the placement as a runtime value.
//!
//! `cargo run --release -p selvedge-examples --example digits -- [--placement inline|thread|process] [--model PATH]`
#![allow(unreachable_pub)] // an actor's operations are its public methods

use std::path::PathBuf;

use clap::Parser;
use selvedge::prelude::*;
use selvedge_examples::arguments::Arguments;
use selvedge_examples::data::{CLASSES, DataError, Digits, PIXELS, SIDE, scaled};
use selvedge_examples::model::{Mlp, classes};
use selvedge_examples::tally::Tally;
use selvedge_examples::weights::WeightsError;

const BATCH: usize = 16;

struct Loader(Digits);

#[actor]
impl Loader {
    pub fn new() -> Result<Self, DataError> {
        Digits::load().map(Loader)
    }

    /// Returns the images of some rows: `[n, 64]`, pixels from 0 to 16.
    pub fn images(&mut self, rows: &[u32]) -> Result<Tensor> {
        let images = rows.iter().filter_map(|row| self.0.image(*row as usize));
        let pixels: Vec<u8> = images.flatten().copied().collect();
        Ok(Tensor::from_vec(pixels, &[rows.len(), PIXELS])?)
    }
}

struct Preprocess;

#[actor]
impl Preprocess {
    pub fn new() -> Self {
        Preprocess
    }

    /// Returns two views of the images, with pixels from 0 to 1: the images unchanged, and shifted down by one pixel.
    pub fn views(&mut self, images: &Tensor) -> Result<(Tensor, Tensor)> {
        let plain: Vec<f32> = images.as_slice()?.iter().copied().map(scaled).collect();
        let lower = plain.chunks_exact(PIXELS).flat_map(|image| {
            let kept = image.iter().take(PIXELS - SIDE);
            std::iter::repeat_n(&0.0, SIDE).chain(kept).copied()
        });
        let lower = Tensor::from_vec(lower.collect::<Vec<f32>>(), images.shape())?;
        Ok((Tensor::from_vec(plain, images.shape())?, lower))
    }
}

struct Replica(Mlp);

#[actor]
impl Replica {
    pub fn new(weights: PathBuf) -> Result<Self, WeightsError> {
        Mlp::load(&weights).map(Replica)
    }

    /// Returns a logit for each class: `[n, 10]`.
    pub fn logits(&mut self, images: &Tensor) -> Result<Tensor> {
        let logits = self.0.logits(images.as_slice()?)?;
        let rows = logits.len() / CLASSES;
        Ok(Tensor::from_vec(logits, &[rows, CLASSES])?)
    }
}

struct Vote;

#[actor]
impl Vote {
    pub fn new() -> Self {
        Vote
    }

    /// Returns the class with the largest mean of both logits, which is the one with the largest sum.
    pub fn classes(&mut self, left: &Tensor, right: &Tensor) -> Result<Vec<u8>> {
        let pairs = left.as_slice::<f32>()?.iter().zip(right.as_slice::<f32>()?);
        let sums: Vec<f32> = pairs.map(|(left, right)| left + right).collect();
        Ok(classes(&sums))
    }
}

struct Report(Digits);

#[actor]
impl Report {
    pub fn new() -> Result<Self, DataError> {
        Digits::load().map(Report)
    }

    /// Returns the number of correct classes.
    pub fn right(&mut self, rows: &[u32], classes: &[u8]) -> usize {
        let labels = rows.iter().map(|row| self.0.label(*row as usize));
        let both = labels.zip(classes);
        both.filter(|(label, class)| *label == Some(**class)).count()
    }
}

/// Spawns, binds and compiles, runs over the held-out rows, and prints the result.
fn run(arguments: &Arguments) -> Result<()> {
    let (runtime, placement) = (Runtime::new(), arguments.placement);
    let loader = runtime.spawn::<Loader>("loader", ()).place(placement)?;
    let preprocess = runtime.spawn::<Preprocess>("preprocess", ()).place(placement)?;
    let replica = |name| {
        let weights = arguments.model.clone();
        runtime.spawn::<Replica>(name, (weights,)).place(placement)
    };
    let (first, second) = (replica("replica 0")?, replica("replica 1")?);
    let vote = runtime.spawn::<Vote>("vote", ()).place(placement)?;
    let report = runtime.spawn::<Report>("report", ()).place(placement)?;
    let options = Options::new()
        .named("digits")
        .max_inflight(arguments.inflight as usize);
    let graph = runtime.compile_with(options, |rows: Edge<Vec<u32>>| {
        let (plain, lower) = preprocess.views(&loader.images(&rows)).split();
        let classes = vote.classes(&first.logits(&plain), &second.logits(&lower));
        let right = report.right(&rows, &classes);
        (classes, right)
    })?;

    let held_out: Vec<u32> = Digits::load()?.held_out().map(|row| row as u32).collect();
    let batches: Vec<Vec<u32>> = held_out.chunks(BATCH).map(<[u32]>::to_vec).collect();
    let rounds = arguments.rounds as usize;
    let mut tally = Tally::start(batches.len() * rounds, !arguments.no_progress);
    for result in graph.map((0..rounds).flat_map(|_| batches.iter().cloned())) {
        let (classes, right) = result?;
        tally.add(&classes, right);
    }
    println!("placement    {placement}, {} in flight", arguments.inflight);
    println!("rounds       {rounds} over {} held-out digits", held_out.len());
    println!("{}", tally.finish()?);
    Ok(())
}

fn main() -> std::process::ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}
