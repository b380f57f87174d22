//! Data-parallel training: every rank has a part of each batch, and gradients are summed over the ranks. The gradient
//! of a layer is summed while the layer in front of it is still computing.
//!
//! `cargo run --release -p selvedge-training --bin train_allreduce -- [--ranks N] [--placement thread|process] [--steps N]`
//!
//! With the feature `hosts`, the ranks may be on other hosts: `--guests ADDRESS --invitation FILE` waits at this address for one worker a
//! rank. Start each as `train_allreduce --selvedge-worker --dial ADDRESS --cookie-file FILE`.
//!
//! Afterwards one rank makes the same steps in a plain loop, and the losses are compared.

#![allow(unreachable_pub)] // no other crate can use the items of a program

use std::error::Error;
use std::time::Instant;

use clap::Parser;
use selvedge::prelude::*;
use selvedge_training::one_thread::keep_candle_to_one_thread;
use selvedge_training::trainer::Trainer;

/// Trains the digits' perceptron by several ranks.
#[derive(Parser)]
#[command(name = "train_allreduce")]
struct Arguments {
    /// How many ranks share a batch of 64.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=16))]
    ranks: u32,
    /// The place of the ranks: thread or process.
    #[arg(long, default_value_t = Placement::Process)]
    placement: Placement,
    /// Batches.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    /// Equal seeds give equal models.
    #[arg(long, default_value_t = 20_261_121)]
    seed: u64,
    /// The address at which one worker a rank dials in.
    #[cfg(feature = "hosts")]
    #[arg(long, requires = "invitation")]
    guests: Option<std::net::SocketAddr>,
    /// A new file, for what these workers need.
    #[cfg(feature = "hosts")]
    #[arg(long)]
    invitation: Option<std::path::PathBuf>,
}

/// The workers of other hosts, one a rank; none if the ranks are on this one.
#[cfg(feature = "hosts")]
fn workers(runtime: &Runtime, arguments: &Arguments) -> Result<Vec<selvedge::Worker>> {
    let (Some(address), Some(file)) = (arguments.guests, &arguments.invitation) else {
        return Ok(Vec::new());
    };
    let door = selvedge::hosts::DialIn::listen(address)?;
    runtime.invitation(&door)?.save(file)?;
    Ok(runtime.add(door.expect(u16::try_from(arguments.ranks)?.try_into()?))?)
}

#[cfg(not(feature = "hosts"))]
#[expect(clippy::unnecessary_wraps, reason = "workers of other hosts may not come")]
fn workers(_: &Runtime, _: &Arguments) -> Result<Vec<selvedge::Worker>> {
    Ok(Vec::new())
}

struct Learner {
    trainer: Trainer,
}

#[actor]
impl Learner {
    pub fn new(rank: usize, ranks: usize, steps: u32, seed: u64) -> Result<Self> {
        keep_candle_to_one_thread();
        let trainer = Trainer::new(rank, ranks, steps, seed)?;
        Ok(Learner { trainer })
    }

    pub fn forward(&mut self, step: u32) -> Result<f64> {
        Ok(self.trainer.forward(step)?)
    }

    pub fn backward(&mut self, #[constant] layer: usize) -> Result<Vec<f64>> {
        Ok(self.trainer.backward(layer)?)
    }

    pub fn update(&mut self, gradient: &[f64], #[constant] layer: usize) -> Result<()> {
        Ok(self.trainer.update(layer, gradient)?)
    }

    pub fn accuracy(&mut self) -> Result<f64> {
        Ok(self.trainer.accuracy(self.trainer.held_out())?)
    }

    pub fn bits(&mut self) -> Result<Vec<u64>> {
        Ok(self.trainer.bits()?)
    }
}

/// Returns the losses of one rank that processes whole batches.
fn plain(compared: u32, steps: u32, seed: u64) -> Result<Vec<f64>> {
    let mut trainer = Trainer::new(0, 1, steps, seed)?;
    let mut losses = Vec::new();
    for step in 0..compared {
        losses.push(trainer.forward(step)?);
        for layer in (0..trainer.depth()).rev() {
            let gradient = trainer.backward(layer)?;
            // The layers in front of it have been computed with the weights before this step.
            trainer.update(layer, &gradient)?;
        }
    }
    Ok(losses)
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    selvedge::init();
    keep_candle_to_one_thread();
    let arguments = Arguments::parse();
    let ranks = arguments.ranks as usize;
    let runtime = Runtime::new();
    let workers = workers(&runtime, &arguments)?;
    let learners: Vec<LearnerHandle> = (0..ranks)
        .map(|rank| {
            let spawn = runtime.spawn::<Learner>(
                format!("learner {rank}"),
                (rank, ranks, arguments.steps, arguments.seed),
            );
            match workers.get(rank) {
                Some(worker) => spawn.in_worker(worker),
                None => spawn.place(arguments.placement),
            }
        })
        .collect::<Result<_, _>>()?;

    let options = Options::new().max_inflight(2).trace(4096);
    let graph = runtime.compile_with(options, |step: Edge<u32>| {
        let losses: Vec<_> = learners.iter().map(|learner| learner.forward(&step)).collect();
        let mut gradients = Vec::new();
        for layer in (0..3_usize).rev() {
            let own = learners.iter().zip(&losses);
            let own: Vec<_> = own
                .map(|(learner, loss)| learner.backward(layer).after(loss))
                .collect();
            gradients.push((layer, allreduce(ReduceOp::Sum, own)));
        }
        let mut done = Vec::new();
        for (layer, gradients) in &gradients {
            let updates = learners.iter().zip(gradients);
            done.extend(updates.map(|(learner, gradient)| learner.update(gradient, *layer)));
        }
        let loss = allreduce(ReduceOp::Sum, losses).swap_remove(0);
        (loss, done)
    })?;

    let started = Instant::now();
    let mut losses = Vec::new();
    for (step, result) in (0_u32..).zip(graph.map(0..arguments.steps)) {
        let (loss, _) = result?;
        if step % 100 == 0 {
            println!("step {step:>5}   loss {loss:.4}");
        }
        losses.push(loss);
    }
    let took = started.elapsed();
    drop(graph);
    println!("ranks        {ranks}, {}", arguments.placement);
    println!("steps        {} in {took:.2?}", arguments.steps);
    let leader = learners.first().ok_or("no ranks")?;
    let accuracy = leader.call().accuracy().wait()?;
    println!("accuracy     {accuracy:.4} on held-out digits");
    let first = leader.call().bits().wait()?;
    let mut equal = true;
    for learner in &learners {
        equal &= learner.call().bits().wait()? == first;
    }
    println!(
        "models       {}",
        if equal { "equal bit for bit" } else { "differ" }
    );
    let compared = arguments.steps.min(200);
    let alone = plain(compared, arguments.steps, arguments.seed)?;
    let apart = losses.iter().zip(&alone).map(|(one, other)| (one - other).abs());
    let apart = apart.fold(0.0, f64::max);
    println!("plain loop   losses of {compared} steps differ by {apart:.1e} at most");
    if apart > 1e-5 {
        return Err("the plain loop has other losses".into());
    }
    if !equal || (accuracy < 0.92 && arguments.steps >= 2000) {
        return Err("the models differ, or recognise too little".into());
    }
    Ok(())
}
