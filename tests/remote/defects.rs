//! Defects that others have had with objects and references, each named by its number there.

use std::time::Duration;

use selvedge::prelude::*;
use selvedge::{FetchError, RemoteChannel, Worker};

use super::channels::kill;
use super::gate::{Gate, wait_at};

const LARGE: usize = 1 << 18;

/// Puts a small value and one that lies in the store, and is not heard of any more.
#[remote]
fn puts() -> Result<Vec<Ref<Vec<u8>>>> {
    let runtime = Runtime::current()?;
    Ok(vec![runtime.put(vec![1; 10])?, runtime.put(vec![2; LARGE])?])
}

#[remote]
fn length(value: &[u8]) -> u64 {
    value.len() as u64
}

fn kill_worker(worker: &Worker) {
    kill(worker.pid().unwrap());
}

/// In Ray the value of a `ray.put` was lost with the worker that had put it, although others held references to it (ray#20018).
#[test]
fn ray_20018_what_a_worker_has_put_is_there_after_its_death_for_all_that_hold_it() {
    let runtime = Runtime::new();
    let (author, reader) = (
        runtime.worker("author").unwrap(),
        runtime.worker("reader").unwrap(),
    );
    let values = runtime.call(puts::remote().on(&author)).wait().unwrap();
    kill_worker(&author);
    assert!(
        runtime
            .call(length::remote(&values[0]).on(&author))
            .wait()
            .is_err(),
        "it is dead"
    );
    for (value, bytes) in values.iter().zip([10, LARGE]) {
        assert_eq!(value.fetch().unwrap().len(), bytes);
        let there = runtime.call(length::remote(value).on(&reader)).wait().unwrap();
        assert_eq!(there, bytes as u64);
    }
}

#[remote]
fn made_at_gate(gate: &str) -> u64 {
    wait_at(gate);
    7
}

/// Says that it begins, and waits for a value of another worker. Returns what it has learnt instead of the owner's loss.
#[remote]
fn waits(value: Ref<u64>, begun: RemoteChannel<u32>) -> Result<Option<String>> {
    begun.put(std::process::id())?;
    Ok(match value.fetch_timeout(Duration::from_secs(60)) {
        Err(FetchError::OwnerLost { .. }) => None,
        other => Some(format!("{other:?}")),
    })
}

/// In Ray the nodes that had subscribed to the places of an object could not learn what became of it once its owner was dead (ray#13654).
#[test]
fn ray_13654_whoever_waits_for_a_value_learns_that_its_owner_is_dead() {
    let runtime = Runtime::new();
    let owner = runtime.worker("owner").unwrap();
    let readers: Vec<_> = (0..3)
        .map(|at| runtime.worker(&format!("reader {at}")).unwrap())
        .collect();
    let gate = Gate::closed("ray-13654");
    let value: Ref<u64> = owner.keep(made_at_gate::remote(&gate.path));
    let begun = runtime.channel::<u32>(16).unwrap();
    let waiting: Vec<_> = readers
        .iter()
        .flat_map(|reader| [reader; 2])
        .map(|reader| runtime.call(waits::remote(&value, &begun).on(reader)))
        .collect();
    for _ in &waiting {
        begun.take().unwrap();
    }
    kill_worker(&owner);
    let here = value.fetch_timeout(Duration::from_secs(60));
    assert!(matches!(here, Err(FetchError::OwnerLost { .. })), "{here:?}");
    for call in waiting {
        assert_eq!(call.wait().unwrap(), None, "the owner was lost");
    }
    // So does one that asks only now, and had never asked before.
    let late = runtime.worker("late").unwrap();
    let call = runtime.call(waits::remote(&value, &begun).on(&late)).wait();
    assert!(call.is_err() || call.is_ok_and(|other| other.is_none()));
}
