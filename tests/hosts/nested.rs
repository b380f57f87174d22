//! A pure call that submits others, on workers of other hosts: its worker is declared dead and lives on, and what it has submitted is adopted.

use std::fs::OpenOptions;
use std::io::Write;
use std::time::Duration;

use rustix::process::Signal;
use selvedge::prelude::*;
use selvedge::{CallState, Resources};

use crate::beside_others;
use crate::census::wait_until;
use crate::deaths::signal;
use crate::gate::{Gate, wait_at};
use crate::guests::{door, guests};

fn note(notes: &str, what: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(notes).unwrap();
    file.write_all(format!("{what}\n").as_bytes()).unwrap();
}

fn times(notes: &str, what: &str) -> usize {
    let notes = std::fs::read_to_string(notes).unwrap_or_default();
    notes.lines().filter(|line| *line == what).count()
}

/// Not pure: another value each time that it runs.
#[remote]
fn noted(notes: &str, what: &str) -> usize {
    note(notes, what);
    std::fs::read_to_string(notes).unwrap().lines().count()
}

#[remote(pure, cpus = 0)]
fn submits(notes: &str, gate: &str) -> Result<(usize, usize)> {
    note(notes, "outer");
    let runtime = Runtime::current()?;
    let first = runtime.submit(noted::remote(notes, "first"));
    let before = *first.fetch()?;
    note(notes, "waits");
    wait_at(gate);
    let late = runtime.submit(noted::remote(notes, "late"));
    late.ready()?;
    Ok((before, *first.fetch()?))
}

#[test]
fn o4_a_call_on_a_buried_worker_that_lives_on_submits_nothing_twice() {
    let _guard = beside_others();
    let path = std::env::temp_dir().join(format!("selvedge-nested-{}", std::process::id()));
    let notes = path.to_str().unwrap();
    let runtime = Runtime::new().silence_timeout(Duration::from_secs(1));
    let (workers, mut started) = guests(&runtime, &door(), &["b", "c", "d"], &[]);
    for worker in &workers[..2] {
        worker.offers(Resources::cpus(0).and("outer", 1));
    }
    workers[2].offers(Resources::cpus(2));
    let gate = Gate::closed("buried");
    let outer: Ref<(usize, usize)> =
        runtime.submit(submits::remote(notes, gate.path.clone()).needs("outer", 1));
    wait_until(&1, || times(notes, "waits"));
    let calls = runtime.calls();
    let mut running = calls.iter().filter_map(|call| match call.state {
        CallState::Running(process) => Some(process),
        _ => None,
    });
    let running = running.next().unwrap();
    let at = workers
        .iter()
        .position(|worker| worker.process() == running)
        .unwrap();
    signal(started[at].0.id(), Signal::STOP);
    wait_until(&2, || times(notes, "waits"));
    drop(gate);
    // It goes on where it was, and finds nobody who hears it.
    signal(started[at].0.id(), Signal::CONT);
    assert!(started[at].0.wait().unwrap().success());
    let (before, after) = *outer.fetch().unwrap();
    assert_eq!(before, after);
    let seen = ["outer", "first", "late"].map(|what| times(notes, what));
    assert_eq!(seen, [2, 1, 1]);
    drop(outer);
    wait_until(&(0, 0), || (runtime.calls().len(), runtime.references().owned));
    std::fs::remove_file(path).unwrap();
}
