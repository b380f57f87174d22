//! Remote channels: 12 jobs over 4 workers. `cargo run -p selvedge-examples --example job_queue`
use selvedge::prelude::*;

/// Works until the channel of jobs is closed and empty. A job is acknowledged when the next one is taken, so the job of a
/// worker that dies goes to another one.
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
    for id in 1..=12 {
        jobs.put(id)?;
    }
    jobs.close()?;
    // In the order in which they end.
    let mut ids = Vec::new();
    for _ in 1..=12 {
        let (id, fibonacci) = results.take()?;
        println!("job {id}: {fibonacci}");
        ids.push(id);
    }
    ids.sort_unstable();
    assert_eq!(ids, (1..=12).collect::<Vec<_>>());
    Ok(())
}
