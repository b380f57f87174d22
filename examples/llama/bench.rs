//! Measures the cost of the graph and the gain of a pipeline: the same model as a plain loop, as one stage and as two
//! stages, in turns in one run.
//!
//! `cargo run --release -p selvedge-llama --bin llama_bench -- overhead|throughput [--model DIR] [--rounds N]`

use std::collections::VecDeque;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use selvedge::prelude::*;
use selvedge_llama::decoder::Decoder;
use selvedge_llama::deployment::{Deployment, Layout};
use selvedge_llama::folder::{Folder, shipped};
use selvedge_llama::report::Report;
use selvedge_llama::share::Share;
use selvedge_llama::step::{Batch, Part, Sampling};
use selvedge_training::one_thread::keep_candle_to_one_thread;

type Failure = Box<dyn Error + Send + Sync>;

/// Compares the graph with a plain loop, or a pipeline of two stages with one.
#[derive(Parser)]
#[command(name = "llama_bench")]
struct Arguments {
    /// The comparison to measure
    what: What,
    /// A directory with the model files as Hugging Face lays them out
    #[arg(long, value_name = "DIR", default_value_os_t = shipped())]
    model: PathBuf,
    /// How often each side has its turn
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Tokens of each sequence in a turn
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    tokens: u32,
    /// Micro-batches that are under way at once, for throughput
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    batches: u32,
    /// Sequences of a micro-batch, for throughput
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    sequences: u32,
    /// How lanes and the driver wait; by default they spin where each has a core of two, with one stage, and park with two
    #[arg(long, value_enum)]
    wait: Option<Waiting>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Waiting {
    /// Spins a while, then parks
    Auto,
    /// Never parks
    Spin,
    /// Parks at once
    Park,
}

impl From<Waiting> for Wait {
    fn from(waiting: Waiting) -> Self {
        match waiting {
            Waiting::Auto => Wait::Auto,
            Waiting::Spin => Wait::Spin,
            Waiting::Park => Wait::Park,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum What {
    /// Time per token, one stage in a worker process beside a plain loop
    Overhead,
    /// Tokens a second, two stages beside one
    Throughput,
}

/// Makes a batch of one token for each slot from `first` on, and asks for the likeliest token after each.
fn step(first: u32, start: u32, tokens: &[u32]) -> Batch {
    let sampling = Some(Sampling {
        temperature: 0.0,
        top_p: 1.0,
        seed: 0,
    });
    let part = |(slot, token): (u32, &u32)| Part {
        slot,
        start,
        tokens: vec![*token],
        sampling,
    };
    Batch {
        parts: (first..).zip(tokens).map(part).collect(),
    }
}

/// Generates one sequence and appends the time of each token to `times`.
fn sequence(
    tokens: u32,
    times: &mut Vec<Duration>,
    mut next: impl FnMut(Batch) -> Result<u32, Failure>,
) -> Result<Vec<u32>, Failure> {
    let (mut token, mut said) = (1, Vec::new());
    for start in 0..tokens {
        let began = Instant::now();
        token = next(step(0, start, &[token]))?;
        times.push(began.elapsed());
        said.push(token);
    }
    Ok(said)
}

/// Returns the median and the 99th percentile, in microseconds.
fn percentiles(times: &mut [Duration]) -> (f64, f64) {
    times.sort_unstable();
    let at = |share: f64| {
        let index = (times.len() as f64 * share) as usize;
        let time = times.get(index.min(times.len().saturating_sub(1)));
        time.copied().unwrap_or_default().as_secs_f64() * 1e6
    };
    (at(0.5), at(0.99))
}

fn overhead(arguments: &Arguments) -> Result<(), Failure> {
    let runtime = Runtime::new();
    let layout = Layout {
        wait: arguments.wait.map_or(Wait::Spin, Wait::from),
        ..Layout::default()
    };
    let graph = Deployment::load(&runtime, &arguments.model, &layout)?;
    let folder = Folder::open(&arguments.model)?;
    let mut plain = Decoder::load(&folder, Share::WHOLE, graph.room())?;
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..=arguments.rounds {
        let [looped, graphed] = &mut times;
        if round == 1 {
            // The first round is a warm-up.
            looped.clear();
            graphed.clear();
        }
        let expected = sequence(arguments.tokens, looped, |batch| {
            Ok(plain.step(&batch)?.first().ok_or("no token")?.token)
        })?;
        let found = sequence(arguments.tokens, graphed, |batch| {
            Ok(graph.step(batch).wait()?.first().ok_or("no token")?.token)
        })?;
        if found != expected {
            return Err("the graph says something else than the plain loop".into());
        }
    }
    let [mut looped, mut graphed] = times;
    let ((plain, plain_p99), (graph, graph_p99)) = (percentiles(&mut looped), percentiles(&mut graphed));
    println!("time per token, {} of each in turns", looped.len());
    println!("plain loop        p50 {plain:.1} us   p99 {plain_p99:.1} us");
    println!("graph, a process  p50 {graph:.1} us   p99 {graph_p99:.1} us");
    println!("ratio             {:.3}", graph / plain);
    Ok(())
}

/// Generates all sequences; each step has one token of every sequence of a micro-batch. Returns tokens per second.
fn together(model: &Deployment, arguments: &Arguments) -> Result<f64, Failure> {
    let began = Instant::now();
    let mut under_way = VecDeque::new();
    for batch in 0..arguments.batches {
        let first = batch * arguments.sequences;
        let tokens = vec![1; arguments.sequences as usize];
        under_way.push_back((first, 0, model.step(step(first, 0, &tokens))));
    }
    while let Some((first, start, execution)) = under_way.pop_front() {
        let mut sampled = execution.wait()?;
        sampled.sort_unstable_by_key(|sampled| sampled.slot);
        let tokens: Vec<u32> = sampled.iter().map(|sampled| sampled.token).collect();
        if start + 1 < arguments.tokens {
            under_way.push_back((first, start + 1, model.step(step(first, start + 1, &tokens))));
        }
    }
    let tokens = f64::from(arguments.batches) * f64::from(arguments.sequences) * f64::from(arguments.tokens);
    Ok(tokens / began.elapsed().as_secs_f64())
}

/// Loads the model with so many stages, and has it generate all sequences twice: once to warm up, and once for the result. Returns tokens per
/// second and the times of the stages.
///
/// The model ends with its turn: a lane that spins takes a core from the other model, also while it has nothing to do.
fn turn(arguments: &Arguments, pipeline: usize, wait: Wait) -> Result<(f64, Report), Failure> {
    let runtime = Runtime::new();
    let layout = Layout {
        pipeline,
        slots: (arguments.batches * arguments.sequences) as usize,
        inflight: Some(arguments.batches as usize),
        wait: arguments.wait.map_or(wait, Wait::from),
        pinned: true,
        trace: 1 << 12,
        ..Layout::default()
    };
    let model = Deployment::load(&runtime, &arguments.model, &layout)?;
    together(&model, arguments)?;
    let rate = together(&model, arguments)?;
    Ok((rate, Report::of(&model.graph().trace())))
}

fn throughput(arguments: &Arguments) -> Result<(), Failure> {
    // On two cores, one stage and the driver have one core each; with two stages the driver shares a core with a stage.
    let sides = [(1, Wait::Spin), (2, Wait::Park)];
    let mut rates = [Vec::new(), Vec::new()];
    let mut reports = [Report::default(), Report::default()];
    for _ in 0..arguments.rounds {
        for ((pipeline, wait), (rates, last)) in sides.into_iter().zip(rates.iter_mut().zip(&mut reports)) {
            let (rate, report) = turn(arguments, pipeline, wait)?;
            rates.push(rate);
            *last = report;
        }
    }
    let medians = rates.map(|mut rates| {
        rates.sort_unstable_by(f64::total_cmp);
        rates.get(rates.len() / 2).copied().unwrap_or_default()
    });
    println!(
        "tokens a second, {} micro-batches of {} under way, {} turns of each",
        arguments.batches, arguments.sequences, arguments.rounds
    );
    let [one, two] = medians;
    println!("one stage         {one:.0}");
    println!("two stages        {two:.0}");
    println!("ratio             {:.3}", two / one);
    for report in &reports {
        print!("{report}");
    }
    Ok(())
}

fn main() -> ExitCode {
    selvedge::init();
    keep_candle_to_one_thread();
    let arguments = Arguments::parse();
    let done = match arguments.what {
        What::Overhead => overhead(&arguments),
        What::Throughput => throughput(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
