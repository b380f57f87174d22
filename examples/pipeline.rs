//! Compares the compiler's predictions about pipelines with measurements: throughput of sleeping stages, the bubble of
//! 1F1B, and an order made for measured durations.
//!
//! `cargo run --release -p selvedge-examples --example pipeline`; with `--selvedge-graph=svg` it draws its first graph.

#![allow(unreachable_pub)] // an actor's operations are its public methods
#![allow(
    clippy::indexing_slicing,
    reason = "an example may panic; stages are numbered from the list they come from"
)]

use std::time::{Duration, Instant};

use clap::Parser;
use selvedge::pipeline::PipelineSchedule;
use selvedge::prelude::*;
use selvedge::{Event, Graph, bound, forecast};

/// Shows what the compiler predicts of pipelines, beside what they do.
#[derive(Parser)]
#[command(name = "pipeline")]
struct Arguments {}

struct Stage {
    takes: Duration,
}

#[actor]
impl Stage {
    pub fn new(micros: u64) -> Self {
        Stage {
            takes: Duration::from_micros(micros),
        }
    }

    /// Simulates work that another device does: the core is free in the meantime.
    pub fn work(&mut self, x: u64) -> u64 {
        std::thread::sleep(self.takes);
        x
    }
}

fn stage(runtime: &Runtime, name: impl Into<String>, micros: u64) -> Result<StageHandle> {
    Ok(runtime.spawn::<Stage>(name, (micros,)).in_thread()?)
}

/// Measures four stages in a row, the third of which is the slowest: the results per second, and the bound.
fn throughput(runtime: &Runtime) -> Result<()> {
    let micros = [1_000, 2_000, 3_000, 2_000];
    let stages: Vec<_> = (0u64..)
        .zip(micros)
        .map(|(index, micros)| stage(runtime, format!("s{index}"), micros))
        .collect::<Result<_>>()?;
    let options = Options::new().trace(4096).named("stages");
    let graph = runtime.compile_with(options, |x: Edge<u64>| {
        stages.iter().fold(x, |x, stage| stage.work(&x))
    })?;
    // A sleep lasts longer than requested: the bound is that of the measured stages.
    let profile = graph.profile(50, |x| x as u64)?;
    let graph = graph.recompile(&profile)?;
    let bound = bound(graph.plan()).ok_or("no bound")?;
    let executions = 500;
    let start = Instant::now();
    for result in graph.map(0..executions) {
        result?;
    }
    let measured = start.elapsed().as_secs_f64() * 1e9 / executions as f64;
    println!(
        "stages of 1, 2, 3 and 2 ms: one result every {:.3} ms, at best {:.3} ms, ratio {:.3}",
        measured / 1e6,
        bound.period_ns / 1e6,
        measured / bound.period_ns
    );
    Ok(())
}

/// Returns the idle fraction of the lanes between the first work of an execution and its last.
fn idle(events: &[Event], execution: u64, stages: usize) -> f64 {
    let work = || {
        events
            .iter()
            .filter(|event| event.operation == "COMPUTE" && event.execution == execution)
    };
    let begin = work().map(|event| event.start_ns).min().unwrap_or_default();
    let end = work().map(|event| event.end_ns).max().unwrap_or_default();
    let busy: u64 = work().map(|event| event.end_ns - event.start_ns).sum();
    1.0 - busy as f64 / ((end - begin) as f64 * stages as f64)
}

/// Measures the bubble of a pass forward and backward through S stages, with M micro-batches per execution.
fn bubble(runtime: &Runtime, schedule: PipelineSchedule, stages: usize, batches: usize) -> Result<()> {
    let crew: Vec<_> = (0..stages)
        .map(|index| stage(runtime, format!("{schedule:?} {index}"), 2_000))
        .collect::<Result<_>>()?;
    let options = Options::new().inputs(batches).max_inflight(1).trace(4096);
    let graph: Graph<Vec<u64>, Vec<u64>> = runtime.compile_with(options, |inputs: Vec<Edge<u64>>| {
        let pass = |step: selvedge::pipeline::Step, x: &Edge<u64>| {
            crew[step.stage].work(x).takes(Duration::from_millis(2))
        };
        schedule.bind(stages, &inputs, pass, |_, loss| loss.clone(), pass)
    })?;
    let executions = 20;
    for execution in 0..executions {
        graph.run(vec![execution; batches])?;
    }
    let mut measured: Vec<f64> = (0..executions)
        .map(|execution| idle(&graph.trace(), execution, stages))
        .collect();
    measured.sort_by(f64::total_cmp);
    let measured = measured[measured.len() / 2];
    let predicted = forecast(graph.plan()).ok_or("no forecast")?.bubble();
    println!(
        "{schedule:?}, {stages} stages, {batches} micro-batches: bubble {measured:.4}, predicted {predicted:.4}, formula {:.4}",
        schedule.bubble(stages, batches)
    );
    Ok(())
}

/// Shows a lane whose default order is bad: the compiler does not know the longest path before it is measured.
fn profiled(runtime: &Runtime) -> Result<()> {
    let lane = runtime.lane("shared");
    let shared = |name: &str| runtime.spawn::<Stage>(name, (4_000,)).in_lane(&lane);
    let (a, b) = (shared("a")?, shared("b")?);
    let (short, long) = (stage(runtime, "short", 10)?, stage(runtime, "long", 12_000)?);
    let options = Options::new().trace(4096).max_inflight(1);
    let graph = runtime.compile_with(options, |x: Edge<u64>| {
        (short.work(&short.work(&a.work(&x))), long.work(&b.work(&x)))
    })?;
    let latency = |graph: &Graph<u64, (u64, u64)>| -> Result<f64> {
        let mut took = Vec::new();
        for x in 0..25 {
            let start = Instant::now();
            graph.run(x)?;
            took.push(start.elapsed().as_secs_f64() * 1e3);
        }
        took.sort_by(f64::total_cmp);
        Ok(took[took.len() / 2])
    };
    let before = latency(&graph)?;
    let profile = graph.profile(10, |x| x as u64)?;
    let graph = graph.recompile(&profile)?;
    let after = latency(&graph)?;
    println!("ordered by a profile: {after:.2} ms an execution instead of {before:.2} ms");
    Ok(())
}

fn main() -> Result<()> {
    Arguments::parse();
    let runtime = Runtime::new();
    throughput(&runtime)?;
    for schedule in [PipelineSchedule::GPipe, PipelineSchedule::OneForwardOneBackward] {
        bubble(&runtime, schedule, 4, 8)?;
    }
    bubble(&runtime, PipelineSchedule::Interleaved { chunks: 2 }, 4, 8)?;
    profiled(&runtime)
}
