//! Maps over a pool with a worker for each core.
//!
//! - `batched`: a function that returns its argument, in batches of 256 items; times are those of one item. No limit.
//! - `heavy`: a function that works for 100 µs; times are those of one item. `limit` is rayon with a thread for each core.

use std::io::Write;
use std::time::{Duration, Instant};

use rayon::prelude::*;
use selvedge::prelude::*;

use super::measure::{REPEATS, measure};
use super::record::Report;
use super::served::{each, returns, row};
use crate::args::BenchArgs;

/// The items of a map, and of a batch of it.
const ITEMS: u64 = 10_000;
const BATCH: usize = 256;

/// The items that work, and the time of each.
const HEAVY_ITEMS: u64 = 1000;
const WORK: Duration = Duration::from_micros(100);

#[remote]
fn works(x: u64) -> u64 {
    let begun = Instant::now();
    while begun.elapsed() < WORK {
        std::hint::spin_loop();
    }
    x
}

/// Prints the case's rows.
pub(crate) fn run<W: Write>(args: &BenchArgs, report: &mut Report<W>) -> anyhow::Result<()> {
    let (budget, runtime) = (super::budget(args), Runtime::new());
    let cores = selvedge::cores().len().max(1);
    let workers: Result<Vec<_>, _> = (0..cores)
        .map(|number| runtime.worker(format!("map{number}")))
        .collect();
    let pool = runtime.pool_of(&workers?)?;
    let threads = rayon::ThreadPoolBuilder::new().num_threads(cores).build()?;
    let (mut batched, mut heavy, mut limit) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        let all = measure(budget, || {
            pool.map(remote_fn!(returns), 0..ITEMS).batch(BATCH).collect()?;
            Ok(())
        })?;
        batched.push(each(all, ITEMS));
        let beside = measure(budget, || {
            let all: Vec<u64> = threads.install(|| (0..HEAVY_ITEMS).into_par_iter().map(works).collect());
            anyhow::ensure!(all.len() as u64 == HEAVY_ITEMS, "rayon has lost items");
            Ok(())
        })?;
        limit.push(each(beside, HEAVY_ITEMS));
        let all = measure(budget, || {
            pool.map(remote_fn!(works), 0..HEAVY_ITEMS).collect()?;
            Ok(())
        })?;
        heavy.push(each(all, HEAVY_ITEMS));
    }
    report.row(&row(args, "batched", 8, &batched, None)?)?;
    report.row(&row(args, "heavy", 8, &heavy, Some(("rayon", &limit)))?)
}
