//! The object store and submitted calls: values that are put, and read in this process and in a worker.
//!
//! - `put`: a value is put and its reference dropped; 8 bytes without a limit, 1 MiB and 64 MiB beside a copy of as many bytes into warm
//!   memory.
//! - `get`: a value is fetched that somebody in this process has; `get_anew`: one that nobody has.
//! - `get_there`: a worker fetches a value that nobody there has; `limit` is a call of a remote function there.
//! - `submitted`: 1 000 calls that do nothing are submitted to a worker, and waited for; times are those of all, divided by their number.
//! - `wait`: a wait for 1 000 values that are there; `wait_each`: 1 000 such calls are submitted, and waited for as they end, one after the
//!   other, each time with all that are left; times are those of all.
//! - `references`: an object with 10 000 references is put; `references_get`: it is fetched; `references_there`: a worker fetches it.

use std::io::Write;
use std::time::{Duration, Instant};

use selvedge::prelude::*;
use selvedge::{DType, Worker};

use super::limits::copy;
use super::measure::{REPEATS, Summary, measure};
use super::record::Report;
use super::served::{each, returns, row};
use crate::args::BenchArgs;

/// The lengths of large values.
const LARGE: [u64; 2] = [1 << 20, 64 << 20];
/// The calls that are submitted at a time, and the values that are waited for.
const CALLS: u64 = 1000;
/// The time that a wait may take.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The references of an object.
const REFERENCES: u64 = 10_000;

/// The times of fetches, in nanoseconds. Nobody in this process has the value when one begins.
#[remote]
fn fetches(value: Ref<Tensor>, seconds: f64) -> Result<Vec<f64>> {
    times(seconds, || value.fetch().map(drop).map_err(Into::into))
}

/// Like `fetches`.
#[remote]
fn fetches_references(value: Ref<Vec<Ref<u64>>>, seconds: f64) -> Result<Vec<f64>> {
    times(seconds, || value.fetch().map(drop).map_err(Into::into))
}

fn times(seconds: f64, mut work: impl FnMut() -> Result<()>) -> Result<Vec<f64>> {
    let (begun, mut times) = (Instant::now(), Vec::new());
    // The first one maps the memory of the store.
    work()?;
    while times.is_empty() || begun.elapsed().as_secs_f64() < seconds {
        let start = Instant::now();
        work()?;
        times.push(start.elapsed().as_nanos() as f64);
    }
    Ok(times)
}

fn summary(samples: Vec<f64>) -> anyhow::Result<Summary> {
    let all = Duration::from_nanos(samples.iter().sum::<f64>() as u64);
    let iterations = samples.len() as u64;
    Summary::of_samples(samples, iterations, all).ok_or_else(|| anyhow::anyhow!("nothing was measured"))
}

/// Prints the case's rows.
pub(crate) fn run<W: Write>(args: &BenchArgs, report: &mut Report<W>) -> anyhow::Result<()> {
    let (budget, runtime) = (super::budget(args), Runtime::new());
    let worker = runtime.worker("reader")?;
    let mut small = Vec::new();
    for _ in 0..REPEATS {
        small.push(measure(budget, || {
            drop(runtime.put(7_u64)?);
            Ok(())
        })?);
    }
    report.row(&row(args, "put", 8, &small, None)?)?;
    for bytes in LARGE {
        large(args, (&runtime, &worker), bytes, report)?;
    }
    submitted(args, &runtime, report)?;
    references(args, (&runtime, &worker), report)
}

fn large<W: Write>(
    args: &BenchArgs,
    (runtime, worker): (&Runtime, &Worker),
    bytes: u64,
    report: &mut Report<W>,
) -> anyhow::Result<()> {
    let (budget, seconds) = (super::budget(args), super::budget(args).as_secs_f64());
    let value = Tensor::from_raw(DType::U8, &[bytes as usize], &vec![1; bytes as usize])?;
    let [mut put, mut copied, mut get, mut anew, mut there, mut call] = [const { Vec::new() }; 6];
    for _ in 0..REPEATS {
        copied.push(measure(budget, copy(bytes as usize))?);
        put.push(measure(budget, || {
            drop(runtime.put(value.clone())?);
            Ok(())
        })?);
        let object = runtime.put(value.clone())?;
        anew.push(measure(budget, || {
            drop(object.fetch()?);
            Ok(())
        })?);
        let held = object.fetch()?;
        get.push(measure(budget, || {
            drop(object.fetch()?);
            Ok(())
        })?);
        drop(held);
        call.push(measure(budget, || {
            runtime.call(returns::remote(1).on(worker)).wait()?;
            Ok(())
        })?);
        let samples = runtime
            .call(fetches::remote(&object, seconds).on(worker))
            .wait()?;
        there.push(summary(samples)?);
    }
    report.row(&row(args, "put", bytes, &put, Some(("memcpy", &copied)))?)?;
    report.row(&row(args, "get", bytes, &get, None)?)?;
    report.row(&row(args, "get_anew", bytes, &anew, None)?)?;
    report.row(&row(args, "get_there", bytes, &there, Some(("call", &call)))?)
}

fn submitted<W: Write>(args: &BenchArgs, runtime: &Runtime, report: &mut Report<W>) -> anyhow::Result<()> {
    let budget = super::budget(args);
    let submit = || -> Vec<Ref<u64>> { (0..CALLS).map(|x| runtime.submit(returns::remote(x))).collect() };
    let all = |calls: Vec<Ref<u64>>| -> anyhow::Result<Vec<Ref<u64>>> {
        let (done, left) = runtime.wait(&calls, CALLS as usize, WAIT_MAX)?;
        anyhow::ensure!(
            left.is_empty(),
            "{} calls have not ended within {WAIT_MAX:?}",
            left.len()
        );
        Ok(done)
    };
    let [mut calls, mut wait, mut wait_each] = [const { Vec::new() }; 3];
    for _ in 0..REPEATS {
        calls.push(each(measure(budget, || all(submit()).map(drop))?, CALLS));
        let mut made = all(submit())?;
        wait.push(measure(budget, || {
            made = all(std::mem::take(&mut made))?;
            Ok(())
        })?);
        wait_each.push(measure(budget, || {
            let mut left = submit();
            while !left.is_empty() {
                left = runtime.wait(&left, 1, WAIT_MAX)?.1;
            }
            Ok(())
        })?);
    }
    report.row(&row(args, "submitted", 8, &calls, None)?)?;
    report.row(&row(args, "wait", CALLS * 8, &wait, None)?)?;
    report.row(&row(args, "wait_each", CALLS * 8, &wait_each, None)?)
}

fn references<W: Write>(
    args: &BenchArgs,
    (runtime, worker): (&Runtime, &Worker),
    report: &mut Report<W>,
) -> anyhow::Result<()> {
    let (budget, seconds) = (super::budget(args), super::budget(args).as_secs_f64());
    let all: Result<Vec<Ref<u64>>, _> = (0..REFERENCES).map(|number| runtime.put(number)).collect();
    let all = all?;
    let [mut put, mut get, mut there] = [const { Vec::new() }; 3];
    for _ in 0..REPEATS {
        put.push(measure(budget, || {
            drop(runtime.put(all.clone())?);
            Ok(())
        })?);
        let object = runtime.put(all.clone())?;
        get.push(measure(budget, || {
            drop(object.fetch()?);
            Ok(())
        })?);
        let samples = runtime
            .call(fetches_references::remote(&object, seconds).on(worker))
            .wait()?;
        there.push(summary(samples)?);
    }
    let bytes = REFERENCES * 8;
    report.row(&row(args, "references", bytes, &put, None)?)?;
    report.row(&row(args, "references_get", bytes, &get, None)?)?;
    report.row(&row(args, "references_there", bytes, &there, None)?)
}
