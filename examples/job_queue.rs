//! Remote channels: 12 jobs over 4 workers. `cargo run -p selvedge-examples --example job_queue`
use std::collections::BTreeSet;

use selvedge::prelude::*;

const JOBS: usize = 12;

/// Works until the channel of jobs is closed and empty. A job is acknowledged when the next one is taken, so the job of a
/// worker that dies goes to another one. A worker that dies between its result and that acknowledgement has its job done
/// again: each job has at least one result, and perhaps several.
#[remote]
fn work(jobs: RemoteChannel<u64>, results: RemoteChannel<(u64, u64)>) -> Result<()> {
    for job in jobs.iter() {
        let id = job?;
        results.put((id, fibonacci(20 + id % 5)))?;
    }
    Ok(())
}

fn fibonacci(n: u64) -> u64 {
    if n < 2 {
        n
    } else {
        fibonacci(n - 1) + fibonacci(n - 2)
    }
}

fn main() -> Result<()> {
    let runtime = Runtime::new();
    let workers = [
        runtime.worker("a")?,
        runtime.worker("b")?,
        runtime.worker("c")?,
        runtime.worker("d")?,
    ];
    let (jobs, results) = (runtime.channel(32)?, runtime.channel(32)?);
    for worker in &workers {
        runtime.cast(work::remote(&jobs, &results).on(worker))?;
    }
    for id in 1..=JOBS as u64 {
        jobs.put(id)?;
    }
    jobs.close()?;
    // In the order in which they end. The number of a job tells its first result from a second one: counting results
    // would take a second one for the result of another job.
    let mut done = BTreeSet::new();
    while done.len() < JOBS {
        let (id, fibonacci) = results.take()?;
        if done.insert(id) {
            println!("job {id}: {fibonacci}");
        }
    }
    Ok(())
}
