//! The count of references from a program: an object lives exactly as long as some process holds it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use selvedge::prelude::*;
use selvedge::{FetchError, RefStats, Worker};

use super::channels::kill;
use super::gate::{Gate, wait_at};

/// The number of objects that live in this process.
static LIVING: AtomicUsize = AtomicUsize::new(0);

/// The number of objects that were made in this process.
static MADE: AtomicUsize = AtomicUsize::new(0);

/// The references that functions keep in this process.
static HELD: Mutex<Vec<Ref<Counted>>> = Mutex::new(Vec::new());

/// A value that counts itself. Serde does not know it.
struct Counted(u64);

impl Drop for Counted {
    fn drop(&mut self) {
        LIVING.fetch_sub(1, Ordering::SeqCst);
    }
}

#[remote]
fn made(x: u64) -> Counted {
    LIVING.fetch_add(1, Ordering::SeqCst);
    MADE.fetch_add(1, Ordering::SeqCst);
    Counted(x)
}

#[remote]
fn living() -> usize {
    LIVING.load(Ordering::SeqCst)
}

#[remote]
fn made_so_far() -> usize {
    MADE.load(Ordering::SeqCst)
}

/// Holds references in the process where the function runs.
#[remote]
fn hold(objects: Vec<Ref<Counted>>) -> usize {
    let mut held = HELD.lock().unwrap();
    held.extend(objects);
    held.len()
}

#[remote]
fn held() -> Vec<Ref<Counted>> {
    HELD.lock().unwrap().clone()
}

#[remote]
fn let_go() {
    HELD.lock().unwrap().clear();
}

/// Leaves the threads of functions that block to others: on one core there is one.
#[remote]
async fn value_after(gate: String, object: Ref<Counted>) -> Option<u64> {
    tokio::task::spawn_blocking(move || wait_at(&gate)).await.unwrap();
    object.local().map(|object| object.0)
}

#[remote]
fn frames_of_references() -> u64 {
    let traffic = Runtime::current()
        .map(|runtime| runtime.traffic())
        .unwrap_or_default();
    let of_references = traffic.into_iter().filter(|entry| entry.service == "references");
    of_references
        .map(|entry| entry.counts.frames_sent + entry.counts.frames_received)
        .sum()
}

fn workers<const N: usize>(runtime: &Runtime, names: [&str; N]) -> [Worker; N] {
    names.map(|name| runtime.worker(name).unwrap())
}

fn living_at(runtime: &Runtime, worker: &Worker) -> usize {
    runtime.call(living::remote().on(worker)).wait().unwrap()
}

/// Asks until the answer is `many`. Each question is answered by another process.
fn until_is(many: usize, ask: impl Fn() -> usize) {
    let limit = Instant::now() + Duration::from_secs(60);
    while ask() != many {
        assert!(Instant::now() < limit, "{many} are expected");
    }
}

fn until_living(runtime: &Runtime, worker: &Worker, many: usize) {
    until_is(many, || living_at(runtime, worker));
}

/// An object of `owner` that was made, and that only this process holds.
fn object(runtime: &Runtime, owner: &Worker, x: u64) -> Ref<Counted> {
    let object: Ref<Counted> = owner.keep(made::remote(x));
    object.ready().unwrap();
    assert_eq!(living_at(runtime, owner), 1);
    object
}

#[test]
fn jgc_01_jgc_02_an_object_lives_until_the_last_process_has_let_go_of_it() {
    let runtime = Runtime::new();
    let [owner, b, c] = workers(&runtime, ["owner", "b", "c"]);
    let object = object(&runtime, &owner, 1);
    let told = || {
        runtime
            .call(frames_of_references::remote().on(&owner))
            .wait()
            .unwrap()
    };
    let before = told();
    for holder in [&b, &c] {
        let many = runtime.call(hold::remote(vec![object.clone()]).on(holder)).wait();
        assert_eq!(many.unwrap(), 1);
    }
    assert!(
        told() >= before + 4,
        "a question and an answer for each of the two"
    );
    drop(object);
    runtime.call(let_go::remote().on(&b)).wait().unwrap();
    // All that `b` and this process have to say has been said when these calls are answered.
    for _ in 0..100 {
        assert_eq!(living_at(&runtime, &owner), 1, "`c` holds it");
    }
    runtime.call(let_go::remote().on(&c)).wait().unwrap();
    until_living(&runtime, &owner, 0);
}

#[remote]
fn references() -> Result<RefStats> {
    Ok(Runtime::current()?.references())
}

#[test]
fn rref_39_each_process_tells_what_it_holds() {
    let runtime = Runtime::new();
    let [owner, user] = workers(&runtime, ["owner", "user"]);
    let object = object(&runtime, &owner, 1);
    runtime
        .call(hold::remote(vec![object.clone()]).on(&user))
        .wait()
        .unwrap();
    let stats_of = |worker| runtime.call(references::remote().on(worker)).wait().unwrap();
    assert_eq!((runtime.references().held, stats_of(&user).held), (1, 1));
    let of_owner = stats_of(&owner);
    assert_eq!((of_owner.owned, of_owner.forks, of_owner.held), (1, 2, 0));
    drop(object);
    runtime.call(let_go::remote().on(&user)).wait().unwrap();
    // Releases are answered too.
    let nothing = RefStats::default();
    for stats in [&|| stats_of(&owner), &|| stats_of(&user), &|| {
        runtime.references()
    }] as [&dyn Fn() -> RefStats; 3]
    {
        until_is(0, || usize::from(stats() != nothing));
    }
}

#[test]
fn jgc_08_a_killed_holder_holds_nothing_any_more() {
    let runtime = Runtime::new();
    let [owner, dies] = workers(&runtime, ["owner", "dies"]);
    let objects: Vec<Ref<Counted>> = (0..10).map(|x| owner.keep(made::remote(x))).collect();
    let many = runtime.call(hold::remote(objects.clone()).on(&dies)).wait();
    assert_eq!(many.unwrap(), 10);
    until_living(&runtime, &owner, 10);
    drop(objects);
    kill(dies.pid().unwrap());
    until_living(&runtime, &owner, 0);
}

#[test]
fn jgc_10_a_reference_that_was_sent_home_is_held_by_its_owner() {
    let runtime = Runtime::new();
    let [owner, other] = workers(&runtime, ["owner", "other"]);
    let object = object(&runtime, &owner, 1);
    let id = object.id();
    runtime
        .call(hold::remote(vec![object]).on(&owner))
        .wait()
        .unwrap();
    for _ in 0..100 {
        assert_eq!(living_at(&runtime, &owner), 1, "its owner holds it");
    }
    // Out again, from the owner's own reference.
    let [again] = <[_; 1]>::try_from(runtime.call(held::remote().on(&owner)).wait().unwrap()).unwrap();
    assert_eq!(again.id(), id);
    runtime.call(hold::remote(vec![again]).on(&other)).wait().unwrap();
    runtime.call(let_go::remote().on(&owner)).wait().unwrap();
    assert_eq!(living_at(&runtime, &owner), 1);
    runtime.call(let_go::remote().on(&other)).wait().unwrap();
    until_living(&runtime, &owner, 0);
}

#[test]
fn rref_22_a_function_at_home_has_the_object_although_its_caller_has_let_go() {
    let runtime = Runtime::new();
    let [owner] = workers(&runtime, ["owner"]);
    let gate = Gate::closed("rref-22");
    let object = object(&runtime, &owner, 7);
    let call = runtime.call(value_after::remote(gate.path.clone(), object).on(&owner));
    for _ in 0..100 {
        assert_eq!(living_at(&runtime, &owner), 1, "the function holds it");
    }
    drop(gate);
    assert_eq!(call.wait().unwrap(), Some(7));
    until_living(&runtime, &owner, 0);
}

#[test]
fn rref_34_an_object_of_this_process_takes_no_messages() {
    let runtime = Runtime::new();
    let [worker] = workers(&runtime, ["w"]);
    let there = object(&runtime, &worker, 1);
    let this_process = there.id().creator.process;
    assert!(there.confirmed(Duration::from_secs(60)).unwrap());
    let before = runtime.traffic();
    let object: Ref<Counted> = runtime.keep(made::remote(5).on_process(this_process));
    object.ready().unwrap();
    let other = object.clone();
    assert_eq!(other.local().map(|object| object.0), Some(5));
    drop((object, other));
    let frames = |traffic: Vec<selvedge::LinkTraffic>| {
        let of_calls = traffic
            .into_iter()
            .filter(|entry| entry.service != "acknowledgements");
        of_calls
            .map(|entry| entry.counts.frames_sent + entry.counts.frames_received)
            .sum::<u64>()
    };
    assert_eq!(frames(runtime.traffic()), frames(before));
}

#[test]
fn jgc_09_a_reference_that_is_passed_and_dropped_at_once_leaves_nothing() {
    let runtime = Runtime::new();
    let [owner, b, c] = workers(&runtime, ["owner", "b", "c"]);
    for round in 1..=50 {
        let object: Ref<Counted> = owner.keep(made::remote(1));
        let calls = [&b, &c, &owner].map(|to| runtime.call(hold::remote(vec![object.clone()]).on(to)));
        drop(object);
        let letting_go = [&b, &c, &owner].map(|at| runtime.call(let_go::remote().on(at)));
        assert!(calls.into_iter().all(|call| call.wait().is_ok()));
        letting_go.into_iter().for_each(|call| call.wait().unwrap());
        for at in [&b, &c, &owner] {
            runtime.call(let_go::remote().on(at)).wait().unwrap();
        }
        until_is(round, || {
            runtime.call(made_so_far::remote().on(&owner)).wait().unwrap()
        });
        until_living(&runtime, &owner, 0);
    }
    let lost: Ref<Counted> = owner.keep(made::remote(1));
    drop(owner);
    let lost = lost.ready_timeout(Duration::from_secs(60));
    assert!(
        matches!(lost, Ok(()) | Err(FetchError::OwnerLost { .. })),
        "{lost:?}"
    );
}
