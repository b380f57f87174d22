//! Shared arrays: a quantity that flows, step by step. `cargo run --release -p selvedge-examples --example advection [SIZE]`
use std::ops::Range;
use std::time::{Duration, Instant};

use selvedge::Worker;
use selvedge::parallel::{SharedArray, split_range};
use selvedge::prelude::*;

/// The rounds of each kind, of which the fastest counts: other programs make some of them slow.
const ROUNDS: usize = 7;

/// Computes `q[t + 1, j, i] = q[t, j, i] + u[t, j, i]` for these times and rows. Each time needs the one before it, so the work is split
/// by rows and not by times.
#[remote]
fn advect(q: SharedArray<f64>, u: SharedArray<f64>, times: Range<usize>, rows: Range<usize>) -> Result<()> {
    let (now, flow) = (q.view()?, u.view()?);
    let &[_, height, width] = q.shape() else {
        return Err("the shape is [times, rows, columns]".into());
    };
    for time in times {
        for row in rows.clone() {
            let start = (time * height + row) * width;
            let sums = now
                .read(start..start + width)?
                .into_iter()
                .zip(flow.read(start..start + width)?);
            let next: Vec<f64> = sums.map(|(q, u)| q + u).collect();
            now.write(start + height * width, &next)?;
        }
    }
    Ok(())
}

/// Gives each element a value of its own.
#[remote]
fn fill(array: SharedArray<f64>) -> Result<()> {
    let mut part = array.claim()?;
    let places = part.range();
    part.iter_mut()
        .zip(places)
        .for_each(|(element, place)| *element = (place % 1000) as f64);
    Ok(())
}

fn main() -> Result<()> {
    let size: usize = std::env::args().nth(1).map_or(Ok(150), |size| size.parse())?;
    let runtime = Runtime::new();
    let workers = [runtime.worker("a")?, runtime.worker("b")?];
    let array = || SharedArray::<f64>::build(&runtime, [size, size, size]).on(&workers);
    let (q, u) = (array().zeroed()?, array().init(remote_fn!(fill))?);
    // The rows of each worker.
    let rows: Vec<_> = split_range(0..size as u64, workers.len())
        .into_iter()
        .map(|rows| rows.start as usize..rows.end as usize)
        .collect();
    let on_all = |times: Range<usize>| -> Result<()> {
        let call = |(worker, rows): (&Worker, &Range<usize>)| {
            runtime.call(advect::remote(&q, &u, times.clone(), rows.clone()).on(worker))
        };
        let calls: Vec<_> = workers.iter().zip(&rows).map(call).collect();
        calls.into_iter().try_for_each(|call| Ok(call.wait()?))
    };
    let steps = 0..size.saturating_sub(1);
    let timed = |name: &str, work: &dyn Fn() -> Result<()>| -> Result<Vec<f64>> {
        let mut best = Duration::MAX;
        for _ in 0..ROUNDS {
            q.fill(0.0)?;
            let begun = Instant::now();
            work()?;
            best = best.min(begun.elapsed());
        }
        println!("{name:<34}{:9.3} ms", best.as_secs_f64() * 1e3);
        Ok(q.snapshot()?)
    };
    // The first use of memory takes longer than the others.
    on_all(steps.clone())?;
    let serial = timed("serial, in one worker", &|| {
        let call = advect::remote(&q, &u, steps.clone(), 0..size).on(&workers[0]);
        Ok(runtime.call(call).wait()?)
    })?;
    let stepped = timed("two workers, a call for each step", &|| {
        steps.clone().try_for_each(|step| on_all(step..step + 1))
    })?;
    let chunked = timed("two workers, one call each", &|| on_all(steps.clone()))?;
    assert!(serial == stepped && serial == chunked);
    println!("all three are equal");
    Ok(())
}
