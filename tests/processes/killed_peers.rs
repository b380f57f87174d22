//! Calls and references while workers are killed: every wait ends with a value or a typed error, and nothing is left.

use std::time::Duration;

use selvedge::prelude::*;
use selvedge::{CallError, FetchError, RemoteError};

use crate::alone::alone;
use crate::census::{Census, settled, wait_until};

/// The number of workers that are killed.
const ROUNDS: usize = 25;

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

fn kill(worker: &selvedge::Worker) {
    let pid = rustix::process::Pid::from_raw(worker.pid().unwrap() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
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
        for round in 0..ROUNDS {
            let dies = runtime.worker(format!("dies {round}"))?;
            let doomed: Ref<Vec<u64>> = dies.keep(grow::remote(100_000));
            let hanging = runtime.call(sleeps::remote().on(&dies));
            let across: Vec<_> = (0..8)
                .map(|_| runtime.call(total::remote(&doomed).on(&stays)))
                .collect();
            let pairs: Vec<_> = (0..4)
                .map(|_| runtime.call(both::remote(&doomed, &kept).on(&dies)))
                .collect();
            std::thread::sleep(Duration::from_micros((round * 137 % 4000) as u64));
            kill(&dies);
            by_death(hanging.wait());
            across.into_iter().for_each(|call| by_death(call.wait()));
            pairs.into_iter().for_each(|call| by_death(call.wait()));
            match doomed.fetch() {
                Ok(rows) => assert_eq!(rows.len(), 100_000),
                Err(error) => assert!(matches!(error, FetchError::OwnerLost { .. }), "{error}"),
            }
            assert_eq!(runtime.call(total::remote(&kept).on(&stays)).wait()?, 45);
        }
        drop((kept, stays, runtime));
        assert_eq!(wait_until(&before, || settled(Census::take)), before);
        Ok(())
    })
}
