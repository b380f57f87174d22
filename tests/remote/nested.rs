//! Pure calls that submit others, and that run again: what they have submitted is adopted, and not run again (trap O4).

use std::path::Path;

use selvedge::prelude::*;
use selvedge::{CallState, Resources, Worker};

use super::census::wait_until;
use super::channels::kill;
use super::gate::{Gate, wait_at};
use super::lost::{Folder, note, value};

/// The outer call has run.
const OUTER: u64 = 100;
/// Fetched by the outer call, and lost.
const LARGE: u64 = 4;

/// Two workers of which each can run one outer call, and a third for all that it submits: what kills the outer call kills nothing else.
fn workers(runtime: &Runtime) -> [Worker; 3] {
    let workers = ["a", "b", "c"].map(|name| runtime.worker(name).unwrap());
    let [a, b, c] = &workers;
    a.offers(Resources::cpus(0).and("outer", 1));
    b.offers(Resources::cpus(0).and("outer", 1));
    c.offers(Resources::cpus(4).and("slot", 1));
    workers
}

/// What a test begins with: a folder for its notes, a runtime with workers, and a closed gate.
fn begun(name: &str) -> (Folder, Runtime, [Worker; 3], Gate) {
    let folder = Folder::new(name);
    let runtime = folder.runtime();
    let workers = workers(&runtime);
    (folder, runtime, workers, Gate::closed(name))
}

/// The number of calls of a function in a state.
fn count_of(runtime: &Runtime, function: &str, is_in: impl Fn(CallState) -> bool) -> usize {
    let calls = runtime.calls();
    let of_function = calls.iter().filter(|call| call.function.ends_with(function));
    of_function.filter(|call| is_in(call.state)).count()
}

/// Kills the worker that runs this function.
fn kill_worker_of(runtime: &Runtime, workers: &[Worker], function: &str) {
    let mut found = None;
    wait_until(&true, || {
        let calls = runtime.calls();
        found = calls.iter().find_map(|call| match call.state {
            CallState::Running(process) if call.function.ends_with(function) => Some(process),
            _ => None,
        });
        found.is_some()
    });
    let worker = workers.iter().find(|worker| Some(worker.process()) == found);
    kill(worker.unwrap().pid().unwrap());
}

fn nothing_is_left(runtime: &Runtime) {
    wait_until(&true, || {
        runtime.calls().is_empty() && runtime.references().owned == 0
    });
    wait_until(&true, || runtime.objects().objects.is_empty());
}

fn times(folder: &Folder, call: u64) -> usize {
    folder.runs().iter().filter(|run| **run == call).count()
}

#[remote(pure)]
fn one(notes: &str, call: u64) -> u64 {
    note(notes, call);
    call
}

/// The number of runs so far: another value each time that it runs.
#[remote]
fn count(notes: &str, call: u64) -> usize {
    note(notes, call);
    std::fs::read_to_string(notes).unwrap().lines().count()
}

#[remote(pure)]
fn added(notes: &str, call: u64, x: u64, y: usize) -> u64 {
    note(notes, call);
    x + y as u64
}

/// A pure call that submits one that is not.
#[remote(pure)]
fn middle(notes: &str, call: u64) -> Result<usize> {
    note(notes, call);
    let counted = Runtime::current()?.submit(count::remote(notes, call + 1));
    Ok(*counted.fetch()?)
}

/// Submits calls of each kind, lets the test have the last of them, and waits at the gate.
#[remote(pure, cpus = 0)]
fn submits(notes: &str, gate: &str, shown: RemoteChannel<Ref<u64>>) -> Result<(u64, usize)> {
    note(notes, OUTER);
    let runtime = Runtime::current()?;
    let pure = runtime.submit(one::remote(notes, 1));
    let impure = runtime.submit(count::remote(notes, 2));
    let of_both = runtime.submit(added::remote(notes, 3, &pure, &impure));
    drop((pure, impure));
    let deep = runtime.submit(middle::remote(notes, 4));
    let counted = *deep.fetch()?;
    of_both.ready()?;
    shown.put(of_both.clone())?;
    wait_at(gate);
    Ok((*of_both.fetch()?, counted))
}

#[test]
fn o4_what_a_killed_call_has_submitted_is_adopted_and_what_is_not_pure_has_run_once() {
    let (folder, runtime, workers, gate) = begun("adopted");
    let shown = runtime.channel(8).unwrap();
    let call = submits::remote(folder.notes(), gate.path.clone(), &shown).needs("outer", 1);
    let outer: Ref<(u64, usize)> = runtime.submit(call);
    let first: Ref<u64> = shown.take().unwrap();
    assert_eq!(times(&folder, 2), 1);
    kill_worker_of(&runtime, &workers, "submits");
    let again: Ref<u64> = shown.take().unwrap();
    assert_eq!(times(&folder, OUTER), 2, "the outer call has run again");
    drop(gate);
    let values = *outer.fetch().unwrap();
    assert_eq!(values.0, *first.fetch().unwrap());
    assert_eq!(values.0, *again.fetch().unwrap());
    // Calls 1 and 4 are pure, and nobody held their values when the worker had died: they may have run again.
    for (call, most) in [(1, 2), (2, 1), (3, 1), (4, 2), (5, 1)] {
        assert!(
            (1..=most).contains(&times(&folder, call)),
            "{call}: {:?}",
            folder.runs()
        );
    }
    drop((outer, first, again, shown));
    nothing_is_left(&runtime);
}

#[remote(pure)]
fn slow(notes: &str, call: u64, gate: &str) -> u64 {
    note(notes, call);
    wait_at(gate);
    call
}

/// Submits a call that runs, and one that waits for it.
#[remote(pure, cpus = 0)]
fn waits(notes: &str, gate: &str) -> Result<u64> {
    let runtime = Runtime::current()?;
    let submitted: Vec<Ref<u64>> = (1..3)
        .map(|call| runtime.submit(slow::remote(notes, call, gate).needs("slot", 1)))
        .collect();
    note(notes, OUTER);
    submitted.iter().map(|it| Ok(*it.fetch()?)).sum()
}

#[test]
fn o4_a_call_that_runs_or_waits_is_adopted_and_neither_started_nor_queued_twice() {
    let (folder, runtime, workers, gate) = begun("running");
    let outer: Ref<u64> = runtime.submit(waits::remote(folder.notes(), gate.path.clone()).needs("outer", 1));
    let of_slow = |is_in: fn(CallState) -> bool| count_of(&runtime, "slow", is_in);
    wait_until(&true, || {
        times(&folder, 1) == 1 && of_slow(|state| state == CallState::Queued) == 1
    });
    kill_worker_of(&runtime, &workers, "waits");
    // Nobody holds them for a while: they go on.
    wait_until(&true, || of_slow(|state| state == CallState::Alias) == 2);
    assert_eq!(of_slow(|state| matches!(state, CallState::Running(_))), 1);
    assert_eq!(of_slow(|state| state == CallState::Queued), 1);
    drop(gate);
    assert_eq!(*outer.fetch().unwrap(), 3);
    assert_eq!([1, 2, OUTER].map(|call| times(&folder, call)), [1, 1, 2]);
    drop(outer);
    nothing_is_left(&runtime);
}

#[remote(pure)]
fn large(notes: &str, call: u64) -> Vec<u8> {
    note(notes, call);
    value(call, &[])
}

#[remote(pure)]
fn sum_of(notes: &str, call: u64, values: &[u8], more: &[u8]) -> u64 {
    note(notes, call);
    values.iter().chain(more).map(|value| u64::from(*value)).sum()
}

/// Puts a small and a large value, and submits calls that read them: the second one by way of a large argument.
#[remote(pure)]
fn puts(notes: &str, shown: RemoteChannel<(Ref<u64>, Ref<Vec<u8>>)>) -> Result<Vec<u8>> {
    note(notes, OUTER);
    let runtime = Runtime::current()?;
    let (small, big) = (runtime.put(vec![1_u8; 10])?, runtime.put(value(1, &[]))?);
    let of_puts = runtime.submit(sum_of::remote(notes, 1, &small, &big));
    of_puts.ready()?;
    let of_argument = runtime.submit(sum_of::remote(notes, 2, value(2, &[]), vec![3]));
    of_argument.ready()?;
    let made = runtime.submit(large::remote(notes, LARGE));
    shown.put((of_puts, made.clone()))?;
    shown.put((of_argument, made.clone()))?;
    Ok(value(*made.fetch()?.first().unwrap_or(&0) as u64, &made.fetch()?))
}

fn lost_after_its_end(name: &str, count: usize) {
    let folder = Folder::new(name);
    let runtime = folder.runtime();
    let _workers: Vec<Worker> = (0..count)
        .map(|at| runtime.worker(format!("w{at}")).unwrap())
        .collect();
    let shown = runtime.channel(8).unwrap();
    let outer: Ref<Vec<u8>> = runtime.submit(puts::remote(folder.notes(), &shown));
    let expected = outer.fetch().unwrap().to_vec();
    let submitted: Vec<(Ref<u64>, Ref<Vec<u8>>)> = (0..2).map(|_| shown.take().unwrap()).collect();
    let sums: Vec<u64> = submitted.iter().map(|(sum, _)| *sum.fetch().unwrap()).collect();
    folder.lose_all(&runtime);
    assert!(*outer.fetch().unwrap() == expected);
    let again: Vec<(Ref<u64>, Ref<Vec<u8>>)> = (0..2).map(|_| shown.take().unwrap()).collect();
    let sums_again: Vec<u64> = again.iter().map(|(sum, _)| *sum.fetch().unwrap()).collect();
    assert_eq!(sums, sums_again);
    // What has a copy is not made again; what is lost is, once.
    assert_eq!(
        [1, 2, LARGE, OUTER].map(|call| times(&folder, call)),
        [1, 1, 2, 2]
    );
    drop((outer, submitted, again, shown));
    nothing_is_left(&runtime);
}

#[test]
fn o4_a_call_whose_value_is_lost_adopts_what_reads_its_puts_and_a_lost_value_is_made_again_once() {
    lost_after_its_end("adopts-puts", 2);
    lost_after_its_end("adopts-puts-alone", 0);
}

/// Breaks its promise: its argument of each call is the number of its own runs.
#[remote(pure, cpus = 0)]
fn fickle(notes: &str, gate: &str) -> Result<u64> {
    note(notes, OUTER);
    let runs = std::fs::read_to_string(notes)?
        .lines()
        .filter(|line| *line == "100")
        .count();
    let submitted = Runtime::current()?.submit(one::remote(notes, runs as u64));
    submitted.ready()?;
    wait_at(gate);
    Ok(*submitted.fetch()?)
}

#[test]
fn o4_another_argument_is_another_call_also_in_the_same_place() {
    let (folder, runtime, workers, gate) = begun("fickle");
    let outer: Ref<u64> = runtime.submit(fickle::remote(folder.notes(), gate.path.clone()).needs("outer", 1));
    wait_until(&true, || times(&folder, 1) == 1);
    kill_worker_of(&runtime, &workers, "fickle");
    drop(gate);
    assert_eq!(*outer.fetch().unwrap(), 2);
    drop(outer);
    nothing_is_left(&runtime);
}

/// Submits two equal calls, from a future.
#[remote(pure)]
async fn awaits(notes: &str, gate: &str) -> Result<usize> {
    note(notes, OUTER);
    let runtime = Runtime::current()?;
    let twice = [1, 1].map(|call| runtime.submit(count::remote(notes, call)));
    let mut sum = 0;
    for counted in &twice {
        sum += *counted.await?;
    }
    let waited: Ref<u64> = runtime.submit(slow::remote(notes, 2, gate));
    (&waited).await?;
    Ok(sum)
}

#[test]
fn o4_an_async_call_adopts_too_and_equal_calls_in_two_places_are_two() {
    let (folder, runtime, workers, gate) = begun("async");
    let outer: Ref<usize> =
        runtime.submit(awaits::remote(folder.notes(), gate.path.clone()).needs("outer", 1));
    wait_until(&true, || times(&folder, 2) == 1);
    kill_worker_of(&runtime, &workers, "awaits");
    wait_until(&true, || times(&folder, OUTER) == 2);
    drop(gate);
    outer.ready().unwrap();
    assert_eq!(times(&folder, 1), 2, "{:?}", folder.runs());
    // Once the outer call is forgotten, another one is another call.
    drop(outer);
    nothing_is_left(&runtime);
    assert!(Path::new(&folder.notes()).exists());
}

/// Submits from a thread of its own, and to a runtime of its own.
#[remote(pure, cpus = 0)]
fn apart(notes: &str, gate: &str) -> Result<u64> {
    note(notes, OUTER);
    let (runtime, path) = (Runtime::current()?, notes.to_owned());
    let thread = std::thread::spawn(move || *runtime.submit(count::remote(path, 1)).fetch().unwrap());
    let counted = thread.join().unwrap() as u64;
    let own = Runtime::new();
    let of_own = *own.submit(one::remote(notes, 2)).fetch()?;
    note(notes, 3);
    wait_at(gate);
    Ok(counted + of_own)
}

#[test]
fn o4_what_threads_of_a_function_and_runtimes_of_its_own_submit_is_not_adopted() {
    let (folder, runtime, workers, gate) = begun("apart");
    let outer: Ref<u64> = runtime.submit(apart::remote(folder.notes(), gate.path.clone()).needs("outer", 1));
    wait_until(&true, || times(&folder, 3) == 1);
    kill_worker_of(&runtime, &workers, "apart");
    drop(gate);
    outer.ready().unwrap();
    assert_eq!([1, 2, OUTER].map(|call| times(&folder, call)), [2, 2, 2]);
    drop(outer);
    nothing_is_left(&runtime);
}

/// Submits a call that runs, and lets the test have it.
#[remote(pure, cpus = 0)]
fn shows(notes: &str, gate: &str, shown: RemoteChannel<Ref<u64>>) -> Result<bool> {
    note(notes, OUTER);
    let running: Ref<u64> = Runtime::current()?.submit(slow::remote(notes, 1, gate));
    shown.put(running.clone())?;
    Ok(running.fetch().is_err())
}

#[test]
fn o4_who_cancels_an_adopted_call_cancels_the_one_that_runs() {
    let (folder, runtime, workers, gate) = begun("adopted-cancelled");
    let shown = runtime.channel(8).unwrap();
    let call = shows::remote(folder.notes(), gate.path.clone(), &shown).needs("outer", 1);
    let outer: Ref<bool> = runtime.submit(call);
    let first: Ref<u64> = shown.take().unwrap();
    wait_until(&true, || times(&folder, 1) == 1);
    kill_worker_of(&runtime, &workers, "shows");
    let again: Ref<u64> = shown.take().unwrap();
    let of_slow = |state: CallState| count_of(&runtime, "slow", |it| it == state);
    wait_until(&true, || of_slow(CallState::Alias) == 1);
    runtime.cancel(&again);
    assert!(again.fetch().is_err());
    assert_eq!(of_slow(CallState::Failed), 2);
    assert!(first.fetch().is_err());
    assert!(*outer.fetch().unwrap());
    drop((gate, outer, first, again, shown));
    nothing_is_left(&runtime);
}
