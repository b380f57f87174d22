//! Calls, references and channels while workers are killed: every wait ends with a value or a typed error, no job is lost,
//! and nothing is left. `KILLS=1000 cargo test --test processes killed_peers -- --nocapture` kills as many, and prints how
//! long the waits went on after the kills.

use std::time::{Duration, Instant};

use selvedge::prelude::*;
use selvedge::{CallError, FetchError, RemoteChannel, RemoteChannelError, RemoteError};

use crate::alone::alone;
use crate::census::{Census, settled, wait_until};
use crate::killing::kill;

/// The number of workers that are killed.
fn rounds() -> usize {
    let kills = std::env::var("KILLS").ok();
    kills.and_then(|kills| kills.parse().ok()).unwrap_or(25)
}

/// The number of jobs in each round.
const JOBS: u64 = 32;

#[remote]
fn grow(rows: u64) -> Vec<u64> {
    (0..rows).collect()
}

#[remote]
fn total(rows: Ref<Vec<u64>>) -> Result<u64> {
    Ok(rows.fetch()?.iter().sum())
}

#[remote]
fn both(left: Ref<Vec<u64>>, right: Ref<Vec<u64>>) -> Vec<Ref<Vec<u64>>> {
    vec![left, right]
}

#[remote]
fn sleeps() -> u64 {
    std::thread::sleep(Duration::from_secs(600));
    0
}

#[remote]
fn work(jobs: RemoteChannel<u64>, results: RemoteChannel<u64>) -> Result<()> {
    for job in jobs.iter() {
        results.put(job?)?;
    }
    Ok(())
}

/// Puts into and takes from a channel whose process is killed.
#[remote]
fn puts_and_takes(channel: RemoteChannel<u64>) -> String {
    let mut steps = (0..).map(|x| {
        channel.put(x)?;
        channel.take().map(drop)
    });
    match steps.find_map(Result::err) {
        Some(RemoteChannelError::HomeLost { .. }) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

/// Takes all that is left, and closes the channel.
fn drained(channel: &RemoteChannel<u64>) -> Result<Vec<u64>> {
    channel.close()?;
    Ok(channel.iter().collect::<Result<_, _>>()?)
}

/// The errors that the death of a worker may cause.
fn by_death<T: std::fmt::Debug>(result: std::result::Result<T, CallError>) {
    let Err(error) = result else { return };
    let is_death = match &error {
        CallError::Remote { error, .. } => matches!(
            **error,
            RemoteError::Died { .. } | RemoteError::Failed(_) | RemoteError::NoSuchProcess { .. }
        ),
        _ => false,
    };
    assert!(is_death, "{error}");
}

#[test]
fn workers_that_are_killed_leave_no_wait_and_no_resource() -> Result<()> {
    alone(|| {
        drop(Runtime::new());
        let before = settled(Census::take);
        let runtime = Runtime::new();
        let stays = runtime.worker("stays")?;
        let kept: Ref<Vec<u64>> = stays.keep(grow::remote(10));
        let mut waits = Vec::new();
        for round in 0..rounds() {
            let dies = runtime.worker(format!("dies {round}"))?;
            let doomed: Ref<Vec<u64>> = dies.keep(grow::remote(100_000));
            let hanging = runtime.call(sleeps::remote().on(&dies));
            let across: Vec<_> = (0..8)
                .map(|_| runtime.call(total::remote(&doomed).on(&stays)))
                .collect();
            let pairs: Vec<_> = (0..4)
                .map(|_| runtime.call(both::remote(&doomed, &kept).on(&dies)))
                .collect();
            let (jobs, results) = (stays.channel(64)?, stays.channel(64)?);
            (0..JOBS).try_for_each(|job| jobs.put(job))?;
            runtime.cast(work::remote(&jobs, &results).on(&dies))?;
            let lost: RemoteChannel<u64> = dies.channel(1)?;
            let using = runtime.call(puts_and_takes::remote(&lost).on(&stays));
            std::thread::sleep(Duration::from_micros((round * 137 % 4000) as u64));
            kill(dies.pid().unwrap());
            let killed = Instant::now();
            by_death(hanging.wait());
            waits.push(killed.elapsed());
            assert_eq!(using.wait()?, "");
            waits.push(killed.elapsed());
            let (left, mut done) = (drained(&jobs)?, drained(&results)?);
            let known = left.len() + done.len();
            done.extend(left);
            done.sort_unstable();
            done.dedup();
            assert_eq!(done, (0..JOBS).collect::<Vec<_>>(), "no job is lost");
            assert!(
                known <= done.len() + 1,
                "only the job that was not acknowledged is there twice"
            );
            across.into_iter().for_each(|call| by_death(call.wait()));
            pairs.into_iter().for_each(|call| by_death(call.wait()));
            match doomed.fetch() {
                Ok(rows) => assert_eq!(rows.len(), 100_000),
                Err(error) => assert!(matches!(error, FetchError::OwnerLost { .. }), "{error}"),
            }
            assert_eq!(runtime.call(total::remote(&kept).on(&stays)).wait()?, 45);
        }
        waits.sort_unstable();
        let (median, worst) = (waits[waits.len() / 2], waits[waits.len() - 1]);
        println!("waits ended {median:?} (median) and {worst:?} (worst) after the kill");
        drop((kept, stays, runtime));
        assert_eq!(wait_until(&before, || settled(Census::take)), before);
        Ok(())
    })
}
