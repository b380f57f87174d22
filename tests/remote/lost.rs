//! Values that are lost from the store: those of pure calls are made again, and all others say why they are not.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use selvedge::prelude::*;
use selvedge::{CallState, FetchError, Loss, Lost, ObjectPlace, Resources, StoreOptions, Worker};

use super::census::wait_until;
use super::gate::{Gate, wait_at};
use super::spilled::damage;

/// The length of a value: too large to be kept beside its reference.
const LENGTH: usize = 20_000;
/// The bytes of a store that has room for a few such values.
const STORE_BYTES: u64 = 8 * (32 << 10);

/// A folder for what a test leaves on the disk: spilled objects, and a file with a byte for each run of a function.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("selvedge-lost-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(super) fn notes(&self) -> String {
        self.0.join("runs").into_os_string().into_string().unwrap()
    }

    /// The calls that have run, in this order.
    pub(super) fn runs(&self) -> Vec<u64> {
        let notes = std::fs::read_to_string(self.notes()).unwrap_or_default();
        notes.lines().map(|line| line.parse().unwrap()).collect()
    }

    /// A runtime with a small store that spills to this folder.
    pub(super) fn runtime(&self) -> Runtime {
        Runtime::new().store(StoreOptions::new().bytes(STORE_BYTES).spill(&self.0))
    }

    /// Has all values leave the memory, and damages what is in the file then.
    pub(super) fn lose_all(&self, runtime: &Runtime) {
        spill_all(runtime);
        damage(&self.0);
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Has all values leave the memory that nobody reads.
fn spill_all(runtime: &Runtime) {
    wait_until(&true, || {
        // Refused as long as somebody reads one.
        drop(runtime.put(vec![0_u8; STORE_BYTES as usize - (32 << 10)]));
        let objects = runtime.objects().objects;
        objects
            .iter()
            .all(|it| matches!(it.place, ObjectPlace::File | ObjectPlace::Dropped))
    });
}

pub(super) fn note(notes: &str, call: u64) {
    use std::io::Write;
    let mut file = OpenOptions::new().create(true).append(true).open(notes).unwrap();
    file.write_all(format!("{call}\n").as_bytes()).unwrap();
}

pub(super) fn value(call: u64, of: &[u8]) -> Vec<u8> {
    let sum = of.iter().fold(call, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u64::from(*byte))
    });
    (0..LENGTH as u64)
        .map(|at| (sum ^ at).wrapping_mul(0x9e37_79b9) as u8)
        .collect()
}

#[remote(pure)]
fn first(notes: &str, call: u64) -> Vec<u8> {
    note(notes, call);
    value(call, &[])
}

#[remote(pure)]
fn next(notes: &str, call: u64, before: &[u8]) -> Vec<u8> {
    note(notes, call);
    value(call, before)
}

#[remote]
fn once(notes: &str, call: u64) -> Vec<u8> {
    note(notes, call);
    value(call, &[])
}

#[remote]
fn sum(values: &[u8]) -> u64 {
    values.iter().map(|value| u64::from(*value)).sum()
}

#[remote(pure)]
fn same(value: Ref<Vec<u8>>) -> Ref<Vec<u8>> {
    value
}

fn workers<const N: usize>(runtime: &Runtime) -> [Worker; N] {
    std::array::from_fn(|at| runtime.worker(format!("w{at}")).unwrap())
}

fn lost(error: &FetchError) -> &Lost {
    error.downcast_ref().unwrap_or_else(|| panic!("{error}"))
}

#[test]
fn rft_02_rstore_06_a_lost_value_of_a_pure_call_is_made_again_for_whoever_fetches_it() {
    let folder = Folder::new("again");
    let runtime = folder.runtime();
    let _workers = workers::<2>(&runtime);
    let made: Ref<Vec<u8>> = runtime.submit(first::remote(folder.notes(), 1));
    assert_eq!(*made.fetch().unwrap(), value(1, &[]));
    folder.lose_all(&runtime);
    assert_eq!(*made.fetch().unwrap(), value(1, &[]), "in the driver's process");
    assert_eq!(folder.runs(), [1, 1]);
    folder.lose_all(&runtime);
    let total: Ref<u64> = runtime.submit(sum::remote(&made));
    assert_eq!(*total.fetch().unwrap(), sum(&value(1, &[])), "in a worker");
    assert_eq!(folder.runs(), [1, 1, 1]);
    assert_eq!(runtime.calls()[0].attempts, 3);
}

#[test]
fn rft_03_a_lost_value_is_made_again_once_however_many_ask() {
    let folder = Folder::new("once");
    let runtime = folder.runtime();
    let _workers = workers::<2>(&runtime);
    let made: Ref<Vec<u8>> = runtime.submit(first::remote(folder.notes(), 1));
    made.ready().unwrap();
    folder.lose_all(&runtime);
    let sums: Vec<Ref<u64>> = (0..8).map(|_| runtime.submit(sum::remote(&made))).collect();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(*made.fetch().unwrap(), value(1, &[])));
        }
    });
    for total in sums {
        assert_eq!(*total.fetch().unwrap(), sum(&value(1, &[])));
    }
    assert_eq!(folder.runs(), [1, 1]);
}

#[test]
fn rft_02_rft_04_a_chain_whose_values_nobody_holds_is_made_again_inputs_first_and_what_is_there_is_not() {
    let folder = Folder::new("chain");
    let runtime = folder.runtime();
    let _workers = workers::<2>(&runtime);
    let notes = folder.notes();
    let (mut last, mut expected) = (runtime.submit(first::remote(&notes, 0)), value(0, &[]));
    let mut third = None;
    for call in 1..7 {
        last = runtime.submit(next::remote(&notes, call, &last));
        expected = value(call, &expected);
        if call == 3 {
            third = Some(last.clone());
        }
    }
    assert_eq!(*last.fetch().unwrap(), expected);
    let third = third.unwrap();
    wait_until(&true, || runtime.objects().objects.len() == 2);
    folder.lose_all(&runtime);
    // The third one is there again: so only what was made of it is lost.
    third.ready().unwrap();
    assert_eq!(third.fetch().unwrap().len(), LENGTH);
    assert_eq!(folder.runs()[7..], [0, 1, 2, 3]);
    wait_until(&true, || runtime.objects().objects.len() == 2);
    assert_eq!(*last.fetch().unwrap(), expected);
    assert_eq!(folder.runs()[11..], [4, 5, 6]);
    drop((last, third));
    wait_until(&true, || {
        runtime.references().owned == 0 && runtime.objects().objects.is_empty()
    });
}

#[remote(pure)]
fn first_at_gate(notes: &str, gate: &str, call: u64) -> Vec<u8> {
    note(notes, call);
    wait_at(gate);
    value(call, &[])
}

/// The call that nobody waits for any more runs again, because what was made of its value may have to.
#[test]
fn a_death_under_a_call_that_is_made_again_and_was_released_meanwhile_loses_no_value_that_was_made_of_it() {
    let folder = Folder::new("released");
    let runtime = folder.runtime();
    let workers = workers::<2>(&runtime);
    let (notes, gate) = (folder.notes(), Gate::closed("released").path.clone());
    let input = runtime.submit(first_at_gate::remote(&notes, &gate, 1));
    let made_of_it = runtime.submit(next::remote(&notes, 2, &input));
    let expected = value(2, &value(1, &[]));
    assert_eq!(*made_of_it.fetch().unwrap(), expected);
    folder.lose_all(&runtime);

    let closed = Gate::closed("released");
    wait_until(&vec![1, 2, 1], || {
        // The loss is found by whoever asks, in a moment that nobody knows.
        let late = input.fetch_timeout(Duration::from_millis(1)).unwrap_err();
        assert!(matches!(late, FetchError::Timeout { .. }), "{late}");
        folder.runs()
    });
    drop(input);
    wait_until(&1, || runtime.references().owned);
    let is_at = |worker: &&Worker| {
        let process = worker.process();
        let calls = runtime.calls();
        calls.iter().any(|call| call.state == CallState::Running(process))
    };
    super::channels::kill(workers.iter().find(is_at).unwrap().pid().unwrap());
    wait_until(&vec![1, 2, 1, 1], || folder.runs());
    drop(closed);

    folder.lose_all(&runtime);
    assert_eq!(*made_of_it.fetch().unwrap(), expected);
}

#[test]
fn rstore_10_a_value_that_can_be_made_again_is_dropped_if_the_file_does_not_take_it() {
    let folder = Folder::new("dropped");
    // Nothing can be spilled there.
    let runtime = Runtime::new().store(StoreOptions::new().bytes(STORE_BYTES).spill("/nowhere/at/all"));
    let _workers = workers::<2>(&runtime);
    let made: Vec<Ref<Vec<u8>>> = (0..20)
        .map(|call| runtime.submit(first::remote(folder.notes(), call)))
        .collect();
    for (call, made) in (0..).zip(&made) {
        assert_eq!(*made.fetch().unwrap(), value(call, &[]));
    }
    wait_until(&true, || {
        let objects = runtime.objects().objects;
        objects.iter().any(|it| it.place == ObjectPlace::Dropped)
    });
    // More often than a call may run again: a value that is dropped is no loss.
    for _ in 0..7 {
        for (call, made) in (0..).zip(&made) {
            assert_eq!(*made.fetch().unwrap(), value(call, &[]));
        }
    }
    let runs = folder.runs();
    let most = (0..20)
        .map(|call| runs.iter().filter(|run| **run == call).count())
        .max();
    assert!(most > Some(5), "{most:?}");
    // What was put cannot be made again, and stays.
    let put = runtime.put(value(99, &[])).unwrap();
    drop(made);
    let filler = runtime.put(vec![0_u8; STORE_BYTES as usize - (64 << 10)]);
    assert_eq!(*put.fetch().unwrap(), value(99, &[]), "{filler:?}");
}

struct Maker;

#[actor]
impl Maker {
    pub fn new() -> Self {
        Maker
    }

    pub fn make(&mut self, call: u64) -> Vec<u8> {
        value(call, &[])
    }
}

#[test]
fn rft_10_a_lost_value_that_an_actor_made_is_not_made_again_and_says_so() {
    let folder = Folder::new("actor");
    let runtime = folder.runtime();
    let maker = runtime.spawn::<Maker>("maker", ()).in_thread().unwrap();
    let graph = runtime.compile(|call: Edge<u64>| maker.make(&call)).unwrap();
    let made = graph.submit(1);
    assert_eq!(*made.fetch().unwrap(), value(1, &[]));
    folder.lose_all(&runtime);
    let error = made.fetch().map(drop).unwrap_err();
    assert!(matches!(lost(&error), Lost::Put { .. }), "{error}");
    assert!(error.to_string().contains("a graph has given it"), "{error}");
}

#[test]
fn rft_09_a_lost_value_that_was_put_says_so_also_to_those_that_take_it() {
    let folder = Folder::new("put");
    let runtime = folder.runtime();
    let _workers = workers::<2>(&runtime);
    let put = runtime.put(value(1, &[])).unwrap();
    folder.lose_all(&runtime);
    let error = put.fetch().map(drop).unwrap_err();
    assert!(matches!(lost(&error), Lost::Put { .. }), "{error}");
    assert!(
        error.to_string().contains("other bytes than were written"),
        "{error}"
    );
    let error = runtime.submit(sum::remote(&put)).fetch().map(drop).unwrap_err();
    assert!(error.to_string().contains("it was put"), "{error}");
    let error = put.fetch().map(drop).unwrap_err();
    assert!(matches!(lost(&error), Lost::Put { .. }), "again: {error}");
}

#[test]
fn rft_12_a_lost_value_that_is_not_made_again_says_why() {
    let folder = Folder::new("why");
    let runtime = folder.runtime();
    let [a, _b] = workers(&runtime);
    let notes = folder.notes();
    let impure: Ref<Vec<u8>> = runtime.submit(once::remote(&notes, 1));
    let pinned: Ref<Vec<u8>> = runtime.submit(first::remote(&notes, 2).on(&a));
    let spent: Ref<Vec<u8>> = runtime.submit(first::remote(&notes, 3).retries(1));
    let all = [&impure, &pinned, &spent];
    all.iter().for_each(|made| made.ready().unwrap());
    folder.lose_all(&runtime);
    let error = impure.fetch().map(drop).unwrap_err();
    assert!(
        matches!(
            lost(&error),
            Lost::NotPure {
                loss: Loss::Value,
                ..
            }
        ),
        "{error}"
    );
    let error = pinned.fetch().map(drop).unwrap_err();
    assert!(
        matches!(
            lost(&error),
            Lost::Pinned {
                loss: Loss::Value,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(*spent.fetch().unwrap(), value(3, &[]));
    folder.lose_all(&runtime);
    let error = spent.fetch().map(drop).unwrap_err();
    assert!(
        matches!(
            lost(&error),
            Lost::RetriesSpent {
                attempts: 2,
                deaths: 2,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(folder.runs().iter().filter(|call| **call < 3).count(), 2);
}

#[test]
fn rft_12_beyond_the_limit_of_bytes_the_oldest_calls_are_forgotten_and_their_lost_values_say_so() {
    let folder = Folder::new("forgotten");
    let runtime = folder.runtime().lineage_bytes(0);
    let _workers = workers::<2>(&runtime);
    let notes = folder.notes();
    let made: Ref<Vec<u8>> = runtime.submit(first::remote(&notes, 1));
    let of_it: Ref<Vec<u8>> = runtime.submit(next::remote(&notes, 2, &made));
    of_it.ready().unwrap();
    folder.lose_all(&runtime);
    for lost_one in [&made, &of_it] {
        let error = lost_one.fetch().map(drop).unwrap_err();
        assert!(
            matches!(lost(&error), Lost::LineageDropped { limit: 0 }),
            "{error}"
        );
    }
    let runtime = folder.runtime();
    let _workers = workers::<2>(&runtime);
    let made: Ref<Vec<u8>> = runtime.submit(first::remote(&notes, 3));
    made.ready().unwrap();
    let of_it: Ref<Vec<u8>> = runtime.submit(next::remote(&notes, 4, &made));
    of_it.ready().unwrap();
    drop(made);
    // Others take the place of both.
    let runtime = runtime.lineage_bytes(100);
    let fillers: Vec<Ref<u64>> = (0..9).map(|_| runtime.submit(small::remote())).collect();
    fillers.iter().for_each(|filler| filler.ready().unwrap());
    folder.lose_all(&runtime);
    let error = of_it.fetch().map(drop).unwrap_err();
    assert!(
        matches!(lost(&error), Lost::LineageDropped { limit: 100 }),
        "{error}"
    );
}

#[remote(pure)]
fn small() -> u64 {
    7
}

#[test]
fn what_a_lost_reference_stands_for_is_made_again() {
    let folder = Folder::new("alias");
    let runtime = folder.runtime();
    let _workers = workers::<2>(&runtime);
    let made: Ref<Vec<u8>> = runtime.submit(first::remote(folder.notes(), 1));
    let alias: Ref<Vec<u8>> = runtime.submit(same::remote(&made));
    let further: Ref<Vec<u8>> = runtime.submit(same::remote(&alias));
    further.ready().unwrap();
    for lost_one in [&further, &alias, &made] {
        folder.lose_all(&runtime);
        assert_eq!(*lost_one.fetch().unwrap(), value(1, &[]));
        let all = [&further, &alias, &made].map(|it| it.fetch().unwrap());
        assert!(all.iter().all(|it| std::sync::Arc::ptr_eq(it, &all[0])));
    }
    assert_eq!(folder.runs(), [1, 1, 1, 1]);
    let total: Ref<u64> = runtime.submit(sum::remote(&further));
    folder.lose_all(&runtime);
    assert_eq!(*total.fetch().unwrap(), sum(&value(1, &[])));
}

#[remote(pure, gpus = 1)]
fn on_gpu(notes: &str, call: u64) -> Vec<u8> {
    note(notes, call);
    value(call, &[])
}

#[remote(gpus = 1)]
fn sum_on_gpu(gate: &str, values: &[u8]) -> u64 {
    wait_at(gate);
    sum(values)
}

#[test]
fn a_call_whose_input_is_lost_where_it_waits_keeps_no_gpu_from_the_call_that_makes_it_again() {
    let folder = Folder::new("on-gpu");
    let runtime = folder.runtime();
    let [worker] = workers(&runtime);
    worker.offers(Resources::cpus(1).gpus(1));
    let gate = Gate::closed("lost-gpu");
    let made: Ref<Vec<u8>> = runtime.submit(on_gpu::remote(folder.notes(), 1));
    made.ready().unwrap();
    let holds: Ref<u64> = runtime.submit(sum_on_gpu::remote(&gate.path, [1]));
    let waits: Vec<Ref<u64>> = (0..2)
        .map(|_| runtime.submit(sum_on_gpu::remote(&gate.path, &made)))
        .collect();
    folder.lose_all(&runtime);
    drop(gate);
    assert_eq!(*holds.fetch().unwrap(), 1);
    for waiting in waits {
        assert_eq!(*waiting.fetch().unwrap(), sum(&value(1, &[])));
    }
    assert_eq!(folder.runs(), [1, 1]);
}

#[test]
fn values_are_lost_and_made_again_in_the_drivers_process_alone() {
    let folder = Folder::new("alone");
    let runtime = folder.runtime();
    let made: Ref<Vec<u8>> = runtime.submit(first::remote(folder.notes(), 1));
    let of_it: Ref<Vec<u8>> = runtime.submit(next::remote(folder.notes(), 2, &made));
    of_it.ready().unwrap();
    folder.lose_all(&runtime);
    assert_eq!(*of_it.fetch().unwrap(), value(2, &value(1, &[])));
    assert_eq!(folder.runs(), [1, 2, 1, 2], "it has waited for its input");
}

#[remote]
fn kept_at_gate(gate: &str) -> u64 {
    wait_at(gate);
    1
}

#[test]
fn rft_05_what_a_dead_worker_would_have_made_is_an_error_and_so_are_its_values() {
    let runtime = Runtime::new();
    let [dies, lives] = workers(&runtime);
    let gate = Gate::closed("dead");
    let folder = Folder::new("dead-notes");
    let made: Ref<Vec<u8>> = dies.keep(once::remote(folder.notes(), 1));
    made.ready().unwrap();
    let pending: Ref<u64> = dies.keep(kept_at_gate::remote(&gate.path));
    let takes: Ref<u64> = runtime.submit(sum::remote(&made).on(&dies));
    super::channels::kill(dies.pid().unwrap());
    for error in [
        made.fetch().map(drop).unwrap_err(),
        pending.fetch().map(drop).unwrap_err(),
    ] {
        assert!(matches!(error, FetchError::OwnerLost { .. }), "{error}");
    }
    let _ = takes.fetch();
    let after: Ref<u64> = runtime.submit(sum::remote(&made).on(&lives));
    let error = after.fetch().map(drop).unwrap_err();
    assert!(error.to_string().contains("has died"), "{error}");
    let called = runtime.call(sum::remote([1]).on(&dies)).wait();
    assert!(called.is_err(), "a dead worker is called");
}

/// `CHAIN=100000 cargo test --release --test remote long_chain -- --nocapture` has as many calls, and tells the times.
#[test]
fn rft_02_a_long_chain_whose_last_value_is_lost_is_made_again_call_by_call() {
    let length = std::env::var("CHAIN")
        .ok()
        .and_then(|calls| calls.parse().ok())
        .unwrap_or(300);
    let folder = Folder::new("long-chain");
    let runtime = folder.runtime();
    let limit = Duration::from_secs(600);
    let begun = Instant::now();
    let mut last: Ref<Vec<u8>> = runtime.submit(first::remote(folder.notes(), 0));
    for call in 1..length {
        last = runtime.submit(next::remote(folder.notes(), call, &last));
    }
    let made = last.fetch_timeout(limit).unwrap();
    let first_time = begun.elapsed();
    wait_until(&true, || runtime.objects().objects.len() == 1);
    let expected = (*made).clone();
    drop(made);
    folder.lose_all(&runtime);
    let begun = Instant::now();
    assert!(*last.fetch_timeout(limit).unwrap() == expected);
    let second_time = begun.elapsed();
    let calls: Vec<u64> = (0..length).collect();
    assert!(
        folder.runs() == [calls.clone(), calls].concat(),
        "each once more, in order"
    );
    println!("{length} calls: {first_time:?}, made again: {second_time:?}");
}
