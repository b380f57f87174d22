//! Compiling a graph of many tasks: the planning alone, which is a pure function, and the whole way from the user's
//! function to a running graph. Every sample is one compilation.

use std::io::Write;
use std::time::{Duration, Instant};

use selvedge_compiler::plan::compile::plan;

use super::measure::{REPEATS, Summary};
use super::record::{Record, Report};
use super::versus::{placement, setup, wait};
use crate::args::BenchArgs;
use crate::shapes::graphs::Wide;

/// Prints the case's rows.
pub(crate) fn run<W: Write>(args: &BenchArgs, report: &mut Report<W>) -> anyhow::Result<()> {
    let setup = setup(args, 8, 4);
    let wide = Wide::new(&setup, args.tasks as usize)?;
    let budget = Duration::from_secs_f64(args.seconds);
    let (mut all, mut planning) = (Vec::new(), Vec::new());
    let start = Instant::now();
    while all.len() < REPEATS || start.elapsed() < budget {
        let (graph, took) = timed(|| wide.compile())?;
        all.push(took);
        let (ir, settings) = (graph.plan().ir.clone(), graph.plan().settings.clone());
        let (_, took) = timed(|| Ok(plan(ir, settings)?))?;
        planning.push(took);
    }
    for (stage, samples) in [("plan", planning), ("all", all)] {
        let (count, total) = (samples.len() as u64, samples.iter().sum());
        let ns = samples.iter().map(|took| took.as_nanos() as f64).collect();
        let Some(found) = Summary::of_samples(ns, count, total) else {
            continue;
        };
        let mut record = Record::new(args.case, 8, &found).placed(placement(args), wait(args));
        record.actors = setup.actors as u32;
        record.tasks = Some(args.tasks);
        record.stage = Some(stage.to_owned());
        report.row(&record)?;
    }
    Ok(())
}

fn timed<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(T, Duration)> {
    let start = Instant::now();
    let done = work()?;
    Ok((done, start.elapsed()))
}
