//! Submitted calls: schedules, resources, aliases, retries and losses.

use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge::prelude::*;
use selvedge::{CallCancelled, CallState, FetchError, Loss, Lost, Resources, Worker};

use super::channels::kill;
use super::gate::{Gate, wait_at};

const SOON: Duration = Duration::from_millis(1);

#[remote]
fn one_of(x: u64) -> u64 {
    x
}

#[remote]
fn sum(x: u64, y: u64) -> u64 {
    x + y
}

#[remote]
fn array() -> Vec<u64> {
    vec![1, 2, 3]
}

/// Submits, and returns the reference.
#[remote]
fn g() -> Result<Ref<Vec<u64>>> {
    Ok(Runtime::current()?.submit(array::remote()))
}

#[remote]
fn h() -> Result<Ref<Vec<u64>>> {
    Ok(Runtime::current()?.submit(g::remote()))
}

#[remote]
fn pick(left: Ref<u64>, right: Ref<u64>, is_left: bool) -> Ref<u64> {
    if is_left { left } else { right }
}

#[remote]
fn at_gate(gate: &str, x: u64) -> u64 {
    wait_at(gate);
    x
}

#[remote(pure)]
fn pure_at_gate(gate: &str) -> u32 {
    wait_at(gate);
    std::process::id()
}

/// Notes its run, and dies with its process as long as there are fewer notes than `lives`.
#[remote(pure, retries = 2)]
fn mortal(path: &str, lives: usize) -> usize {
    noted(path, lives)
}

#[remote]
fn mortal_once(path: &str, lives: usize) -> usize {
    noted(path, lives)
}

#[remote(pure)]
fn same_number(number: usize) -> usize {
    number
}

fn noted(path: &str, lives: usize) -> usize {
    use std::io::Write;
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .unwrap();
    file.write_all(b"x").unwrap();
    let runs = std::fs::metadata(path).unwrap().len() as usize;
    if runs < lives {
        kill(std::process::id());
    }
    runs
}

/// A file that does not exist, and will not be left behind.
struct Notes(String);

impl Notes {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("selvedge-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        Notes(path.into_os_string().into_string().unwrap())
    }

    fn runs(&self) -> usize {
        std::fs::metadata(&self.0).map_or(0, |file| file.len() as usize)
    }
}

impl Drop for Notes {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn with_workers<const N: usize>(runtime: &Runtime) -> [Worker; N] {
    std::array::from_fn(|at| runtime.worker(&format!("w{at}")).unwrap())
}

/// Workers that run calls beside one that waits at a gate, on a host with one core too.
fn with_wide_workers(runtime: &Runtime) -> [Worker; 2] {
    let workers = with_workers(runtime);
    for worker in &workers {
        worker.offers(Resources::cpus(2));
    }
    workers
}

fn lost(error: &FetchError) -> &Lost {
    error.downcast_ref().unwrap_or_else(|| panic!("{error}"))
}

#[test]
fn alias_01_alias_02_alias_03_references_that_functions_return_stand_for_one_object() {
    let runtime = Runtime::new();
    let _workers = with_workers::<2>(&runtime);
    let ref_h: Ref<Vec<u64>> = runtime.submit(h::remote());
    let first = ref_h.fetch().unwrap();
    assert_eq!(*first, [1, 2, 3]);
    assert!(Arc::ptr_eq(&first, &ref_h.fetch().unwrap()));
    assert_eq!(runtime.references().owned, 3, "h, g and f: each holds the next");
    ref_h.release();
    while runtime.references().owned > 0 || !runtime.calls().is_empty() {
        std::thread::yield_now();
    }
}

#[test]
fn alias_18_alias_19_a_reference_by_value_is_passed_on_and_several_may_stand_for_it() {
    let runtime = Runtime::new();
    let _workers = with_wide_workers(&runtime);
    let gate = Gate::closed("alias-tree");
    let (left, right) = (
        runtime.submit(at_gate::remote(&gate.path, 7)),
        runtime.submit(one_of::remote(8)),
    );
    let picks: Vec<Ref<u64>> = [true, true, false]
        .map(|is| runtime.submit(pick::remote(&left, &right, is)))
        .into();
    let further: Ref<u64> = runtime.submit(pick::remote(&picks[0], &picks[2], true));
    let after: Ref<u64> = runtime.submit(sum::remote(&further, &picks[2]));
    assert_eq!(*picks[2].fetch().unwrap(), 8);
    while runtime
        .calls()
        .iter()
        .filter(|call| call.state == CallState::Alias)
        .count()
        < 3
    {
        std::thread::yield_now();
    }
    assert!(!further.is_ready().unwrap() && !after.is_ready().unwrap());
    drop(gate);
    assert_eq!(*after.fetch().unwrap(), 15);
    let value = left.fetch().unwrap();
    for alias in [&picks[0], &picks[1], &further] {
        assert!(Arc::ptr_eq(&value, &alias.fetch().unwrap()));
    }
}

#[test]
fn an_alias_of_a_cancelled_alias_fails_with_it() {
    let runtime = Runtime::new();
    let _workers = with_wide_workers(&runtime);
    let gate = Gate::closed("cancelled-alias");
    let first: Ref<u64> = runtime.submit(at_gate::remote(&gate.path, 7));
    let alias: Ref<u64> = runtime.submit(pick::remote(&first, &first, true));
    while runtime.calls()[1].state != CallState::Alias {
        std::thread::yield_now();
    }
    runtime.cancel(&alias);
    let further: Ref<u64> = runtime.submit(pick::remote(&alias, &first, true));
    let (done, left) = runtime.wait(&[further], 1, Duration::from_secs(60)).unwrap();
    assert!(left.is_empty(), "{:?}", runtime.calls());
    let error = done[0].fetch().unwrap_err();
    assert!(error.to_string().contains("cancel"), "{error}");
    drop(gate);
    assert_eq!(*first.fetch().unwrap(), 7);
}

#[test]
fn an_alias_of_a_kept_value_and_of_one_that_is_set_has_their_values() {
    let runtime = Runtime::new();
    let [a, _b] = with_workers(&runtime);
    let (kept, unset) = (a.keep(one_of::remote(4)), runtime.unset::<u64>());
    let of_kept: Ref<u64> = runtime.submit(pick::remote(&kept, &unset, true));
    let of_unset: Ref<u64> = runtime.submit(pick::remote(&kept, &unset, false));
    let both: Ref<u64> = runtime.submit(sum::remote(&of_kept, &unset));
    assert_eq!(*of_kept.fetch().unwrap(), 4);
    assert!(!of_unset.is_ready().unwrap());
    unset.set(5).unwrap();
    assert_eq!((*of_unset.fetch().unwrap(), *both.fetch().unwrap()), (5, 9));
}

#[test]
fn rft_11_a_pure_call_runs_again_when_its_worker_dies_and_any_other_is_lost() {
    let runtime = Runtime::new();
    let workers = with_workers::<4>(&runtime);
    let notes = Notes::new("mortal");
    assert_eq!(*runtime.submit(mortal::remote(&notes.0, 3)).fetch().unwrap(), 3);
    let notes = Notes::new("mortal-once");
    let error = runtime
        .submit(mortal_once::remote(&notes.0, 2))
        .fetch()
        .unwrap_err();
    assert!(matches!(lost(&error), Lost::NotPure { .. }), "{error}");
    assert!(error.to_string().contains("SIGKILL"), "{error}");
    assert!(error.to_string().contains("mortal_once"), "{error}");
    assert_eq!(notes.runs(), 1);
    drop(workers);
}

#[remote]
fn why_lost(value: Ref<usize>) -> String {
    let error = value.fetch().unwrap_err();
    lost(&error).to_string()
}

#[test]
fn rft_11_whoever_needs_a_lost_value_in_any_process_gets_the_reason_as_its_type() {
    let runtime = Runtime::new();
    let workers = with_workers::<3>(&runtime);
    let notes = Notes::new("mortal-once-read");
    let value = runtime.submit(mortal_once::remote(&notes.0, 2));
    let reads = runtime.submit(same_number::remote(&value));
    let why = lost(&value.fetch().unwrap_err()).to_string();
    let error = reads.fetch().unwrap_err();
    assert_eq!(lost(&error).to_string(), why);
    assert!(error.to_string().contains("same_number"), "{error}");
    let elsewhere = runtime.submit(why_lost::remote(&value));
    assert_eq!(*elsewhere.fetch().unwrap(), why);
    drop(workers);
}

#[test]
fn rft_11_retries_are_counted_and_the_error_says_how_many() {
    let runtime = Runtime::new();
    let _workers = with_workers::<8>(&runtime);
    let notes = Notes::new("spent");
    let error = runtime.submit(mortal::remote(&notes.0, 99)).fetch().unwrap_err();
    assert!(
        matches!(
            lost(&error),
            Lost::RetriesSpent {
                attempts: 3,
                deaths: 3,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(notes.runs(), 3);
    let notes = Notes::new("spent-at-once");
    let error = runtime
        .submit(mortal::remote(&notes.0, 99).retries(0))
        .fetch()
        .unwrap_err();
    assert!(
        matches!(lost(&error), Lost::RetriesSpent { attempts: 1, .. }),
        "{error}"
    );
    let notes = Notes::new("allowed");
    let once_more = mortal_once::remote(&notes.0, 2).retries(1);
    assert_eq!(*runtime.submit(once_more).fetch().unwrap(), 2);
}

#[test]
fn a_call_that_kills_every_worker_does_not_run_in_the_drivers_process() {
    let runtime = Runtime::new();
    let _workers = with_workers::<2>(&runtime);
    let notes = Notes::new("poison");
    let error = runtime.submit(mortal::remote(&notes.0, 3)).fetch().unwrap_err();
    assert!(
        matches!(lost(&error), Lost::NoWorkerLeft { deaths: 2, .. }),
        "{error}"
    );
    assert_eq!(notes.runs(), 2);
}

#[test]
fn a_call_for_one_worker_is_lost_with_it_and_goes_there_whatever_it_has_to_do() {
    let runtime = Runtime::new();
    let [a, b] = with_workers(&runtime);
    a.offers(Resources::cpus(0));
    let gate = Gate::closed("pinned");
    let here: Ref<u32> = runtime.submit(pure_at_gate::remote(&gate.path).on(&a));
    kill_when_running(&runtime, &a);
    let error = here.fetch().unwrap_err();
    assert!(matches!(lost(&error), Lost::Pinned { .. }), "{error}");
    let late = runtime.submit(one_of::remote(1).on(&a)).fetch().unwrap_err();
    let ran = [&error, &late].map(|error| match lost(error) {
        Lost::Pinned { loss, .. } => matches!(loss, Loss::Death { .. }),
        other => panic!("{other}"),
    });
    assert_eq!(
        ran,
        [true, false],
        "the worker was dead before it had the second one"
    );
    assert!(late.to_string().contains("died before it had the call"), "{late}");
    drop((gate, b));
}

fn kill_when_running(runtime: &Runtime, worker: &Worker) {
    let process = worker.process();
    while !runtime
        .calls()
        .iter()
        .any(|call| call.state == CallState::Running(process))
    {
        std::thread::yield_now();
    }
    kill(worker.pid().unwrap());
}

/// Waits for a call that it submits, `depth` of them in each other.
#[remote]
fn nested(depth: u64) -> Result<u64> {
    match depth {
        0 => Ok(0),
        depth => Ok(1 + *Runtime::current()?.submit(nested::remote(depth - 1)).fetch()?),
    }
}

#[test]
fn nested_calls_that_wait_end_with_one_cpu_in_all() {
    let runtime = Runtime::new();
    let [worker] = with_workers(&runtime);
    worker.offers(Resources::cpus(1));
    assert_eq!(*runtime.submit(nested::remote(20)).fetch().unwrap(), 20);
    // And in the driver's process alone.
    let alone = Runtime::new();
    assert_eq!(*alone.submit(nested::remote(20)).fetch().unwrap(), 20);
}

/// Waits for a call that it submits, without a thread of its own.
#[remote]
async fn awaits(x: u64) -> Result<u64> {
    let child = Runtime::current()?.submit(one_of::remote(x));
    child.until_ready().await?;
    Ok(x)
}

#[test]
fn an_async_function_keeps_no_cpu_from_the_call_that_it_waits_for() {
    let runtime = Runtime::new();
    let [worker] = with_workers(&runtime);
    worker.offers(Resources::cpus(2));
    let parent: Ref<u64> = runtime.submit(awaits::remote(3).cpus(2));
    let (done, left) = runtime.wait(&[parent], 1, Duration::from_secs(60)).unwrap();
    assert!(left.is_empty(), "{:?}", runtime.calls());
    assert_eq!(*done[0].fetch().unwrap(), 3);
}

#[test]
fn rtask_08_named_resources_are_never_overcommitted() {
    let runtime = Runtime::new();
    let workers = with_workers::<2>(&runtime);
    for worker in &workers {
        worker.offers(Resources::cpus(4).and("licence", 1));
    }
    let gate = Gate::closed("licences");
    let calls: Vec<Ref<u64>> = (0..6)
        .map(|x| runtime.submit(at_gate::remote(&gate.path, x).needs("licence", 1)))
        .collect();
    let others: Vec<Ref<u64>> = (0..6).map(|x| runtime.submit(one_of::remote(x))).collect();
    for other in &others {
        other.ready().unwrap();
    }
    let running = |call: &selvedge::CallInfo| matches!(call.state, CallState::Running(_));
    assert_eq!(runtime.calls().iter().filter(|call| running(call)).count(), 2);
    drop(gate);
    assert_eq!(calls.iter().map(|call| *call.fetch().unwrap()).sum::<u64>(), 15);
}

#[test]
fn rtask_08_a_worker_that_offers_more_cpus_than_it_has_cores_runs_as_many_calls_at_a_time() {
    let runtime = Runtime::new();
    let [worker] = with_workers(&runtime);
    let count = std::thread::available_parallelism().unwrap().get() + 3;
    let (gate, notes) = (Gate::closed("offered"), Notes::new("on-offered"));
    let calls: Vec<Ref<u64>> = (0..count as u64)
        .map(|x| runtime.submit(long_at_gate::remote(&gate.path, &notes.0, [x], 1_u64)))
        .collect();
    worker.offers(Resources::cpus(count as u32));
    let deadline = Instant::now() + Duration::from_secs(60);
    while notes.runs() < count {
        assert!(Instant::now() < deadline, "{} of {count} run", notes.runs());
        std::thread::yield_now();
    }
    drop(gate);
    let sum: u64 = calls.iter().map(|call| *call.fetch().unwrap()).sum();
    assert_eq!(sum, (0..count as u64).sum::<u64>());
}

#[test]
fn rtask_08_the_workers_of_a_host_together_run_as_many_calls_as_it_has_cores() {
    let runtime = Runtime::new();
    let _workers = with_workers::<3>(&runtime);
    let cores = std::thread::available_parallelism().unwrap().get();
    let gate = Gate::closed("cores");
    let calls: Vec<Ref<u64>> = (0..2 * cores as u64)
        .map(|x| runtime.submit(at_gate::remote(&gate.path, x)))
        .collect();
    let running = |call: &selvedge::CallInfo| matches!(call.state, CallState::Running(_));
    assert_eq!(runtime.calls().iter().filter(|call| running(call)).count(), cores);
    // All of the cores are not too many for a call.
    let all: Ref<u64> = runtime.submit(one_of::remote(7).cpus(cores as u32));
    drop(gate);
    assert_eq!(*all.fetch().unwrap(), 7);
    calls.iter().for_each(|call| call.ready().unwrap());
}

#[test]
fn rtask_12_what_no_worker_offers_is_told_at_once() {
    let runtime = Runtime::new();
    let [worker] = with_workers(&runtime);
    worker.offers(Resources::cpus(2));
    let error = runtime.submit(one_of::remote(1).gpus(1)).fetch().unwrap_err();
    assert!(matches!(lost(&error), Lost::Infeasible { .. }), "{error}");
    assert!(
        error.to_string().contains("1 cpus, 1 gpus") && error.to_string().contains("offer 2 cpus"),
        "{error}"
    );
    worker.offers(Resources::cpus(2).gpus(1));
    assert_eq!(*runtime.submit(one_of::remote(1).gpus(1)).fetch().unwrap(), 1);
}

#[test]
fn a_cancelled_call_gives_its_error_and_one_that_waits_does_not_run() {
    let runtime = Runtime::new();
    let [worker] = with_workers(&runtime);
    worker.offers(Resources::cpus(1));
    let gate = Gate::closed("cancelled");
    let notes = Notes::new("on-cancelled");
    let calls: Vec<Ref<u64>> = (0..3)
        .map(|x| runtime.submit(at_gate::remote(&gate.path, x)))
        .collect();
    let waiting: Ref<usize> = runtime.submit(mortal::remote(&notes.0, 0));
    let after: Ref<u64> = runtime.submit(sum::remote(1, &calls[0]));
    runtime.cancel(&waiting);
    runtime.cancel(&calls[0]);
    for error in [waiting.fetch().unwrap_err(), calls[0].fetch().unwrap_err()] {
        assert!(error.to_string().contains("cancel"), "{error}");
    }
    assert!(
        waiting
            .fetch()
            .unwrap_err()
            .downcast_ref::<CallCancelled>()
            .is_some()
    );
    drop(gate);
    // The function at the gate kept its cpu.
    let error = after.fetch().unwrap_err();
    assert!(error.to_string().contains("cancel"), "{error}");
    assert_eq!(*calls[2].fetch().unwrap(), 2);
    runtime.cancel(&calls[2]);
    assert_eq!((*calls[2].fetch().unwrap(), notes.runs()), (2, 0));
}

#[remote(pure)]
fn long_at_gate(gate: &str, notes: &str, values: &[u64], times: u64) -> u64 {
    noted(notes, 0);
    wait_at(gate);
    values.iter().sum::<u64>() * times
}

fn sent(runtime: &Runtime) -> u64 {
    runtime
        .traffic()
        .iter()
        .map(|traffic| traffic.counts.bytes_sent)
        .sum()
}

#[test]
fn rtask_01_rtask_02_a_large_argument_lies_in_the_store_and_is_not_copied_when_the_call_runs_again() {
    let runtime = Runtime::new();
    let workers = with_workers::<2>(&runtime);
    let (gate, notes) = (Gate::closed("large-gate"), Notes::new("large"));
    let values = vec![3_u64; 1 << 17];
    let by_reference: Ref<u64> = runtime.submit(one_of::remote(2));
    let call: Ref<u64> = runtime.submit(long_at_gate::remote(&gate.path, &notes.0, &values, &by_reference));
    let listed = runtime.calls();
    let task = listed
        .iter()
        .find(|it| it.function.ends_with("long_at_gate"))
        .unwrap();
    assert_eq!(
        task.value,
        call.id(),
        "the name of the value is known before it is made"
    );
    assert!(task.inline_bytes < 1000, "{task:?}");
    let stored = runtime.objects().objects;
    assert_eq!((stored.len(), stored[0].bytes >> 20), (1, 1));
    assert_eq!(
        task.references.len(),
        2,
        "the large value, and the one that is passed by reference"
    );
    assert!(task.references.contains(&by_reference.id()));
    let is_at = |worker: &&Worker| {
        let process = worker.process();
        runtime
            .calls()
            .iter()
            .any(|it| it.state == CallState::Running(process) && it.inline_bytes > 0)
    };
    for runs in 1..=2 {
        while notes.runs() < runs {
            std::thread::yield_now();
        }
        if runs == 1 {
            kill(workers.iter().find(is_at).unwrap().pid().unwrap());
        }
    }
    drop(gate);
    assert_eq!(*call.fetch().unwrap(), 6 << 17);
    let stored = runtime.objects().objects;
    assert_eq!(stored.len(), 1, "kept, since the call may run again");
    assert!(sent(&runtime) < 1 << 16, "{} bytes", sent(&runtime));
    drop(call);
    while !runtime.objects().objects.is_empty() {
        std::thread::yield_now();
    }
}

#[remote]
fn several() -> Result<(Tensor, String, Tensor)> {
    let tensor = |value: f32| Tensor::from_slice(&vec![value; 5001], &[5001]);
    Ok((tensor(1.0)?, "between".to_owned(), tensor(2.0)?))
}

#[test]
fn rtask_11_a_large_result_is_one_object_with_aligned_parts() {
    let runtime = Runtime::new();
    let _workers = with_workers::<1>(&runtime);
    let made: Ref<(Tensor, String, Tensor)> = runtime.submit(several::remote());
    let value = made.fetch().unwrap();
    let objects = runtime.objects().objects;
    assert_eq!(objects.len(), 1);
    let [first, second] = [&value.0, &value.2].map(|tensor| tensor.bytes().as_ptr().addr());
    assert!(first % 64 == 0 && second % 64 == 0);
    let apart = first.abs_diff(second) as u64;
    assert!(
        apart >= 5001 * 4 && apart < objects[0].bytes,
        "{apart} bytes apart"
    );
    assert_eq!(value.1, "between");
}

#[test]
fn rtask_08_a_cancelled_call_gives_its_gpu_back_when_its_function_has_ended_or_its_worker_is_dead() {
    for is_killed in [false, true] {
        let runtime = Runtime::new();
        let [worker, other] = with_workers(&runtime);
        let offered = Resources::cpus(4).gpus(1);
        worker.offers(offered.clone());
        other.offers(Resources::cpus(4));
        let (gate, notes) = (Gate::closed("cancelled-gpu"), Notes::new("on-cancelled-gpu"));
        let first: Ref<u64> = runtime.submit(long_at_gate::remote(&gate.path, &notes.0, [1], 1_u64).gpus(1));
        let second: Ref<u64> = runtime.submit(one_of::remote(2).gpus(1));
        // One whose function has not begun ends at once.
        while notes.runs() == 0 {
            std::thread::yield_now();
        }
        runtime.cancel(&first);
        let error = first.fetch().unwrap_err();
        assert!(error.to_string().contains("cancel"), "{error}");
        drop(first);
        for x in 0..9 {
            assert_eq!(*runtime.submit(one_of::remote(x)).fetch().unwrap(), x);
        }
        let is_made = second.is_ready().unwrap();
        assert!(
            !is_made,
            "the gpu is in use: {:?}, {:?}",
            second.fetch(),
            runtime.calls()
        );
        match is_killed {
            true => {
                kill(worker.pid().unwrap());
                other.offers(offered);
            }
            false => drop(gate),
        }
        let third: Ref<u64> = runtime.submit(one_of::remote(3).gpus(1));
        assert_eq!(*third.fetch().unwrap(), 3);
        match second.fetch() {
            Ok(value) => assert_eq!(*value, 2),
            Err(error) => assert!(
                is_killed && matches!(lost(&error), Lost::Infeasible { .. }),
                "{error}"
            ),
        }
    }
}

#[test]
fn a_worker_that_joins_runs_what_waits_although_nothing_ends() {
    let runtime = Runtime::new();
    let [full] = with_workers(&runtime);
    full.offers(Resources::cpus(1));
    let gate = Gate::closed("joins");
    let runs: Ref<u64> = runtime.submit(at_gate::remote(&gate.path, 1));
    let waits: Ref<u64> = runtime.submit(one_of::remote(2));
    let _joins = runtime.worker("joins").unwrap();
    assert_eq!(*waits.fetch().unwrap(), 2);
    drop(gate);
    assert_eq!(*runs.fetch().unwrap(), 1);
}

#[test]
fn a_cancelled_call_holds_its_inputs_and_what_it_stands_for_no_more() {
    let runtime = Runtime::new();
    let _workers = with_workers::<2>(&runtime);
    let unset = runtime.unset::<u64>();
    let waiting: Ref<u64> = runtime.submit(sum::remote(&unset, 1));
    let stands: Ref<u64> = runtime.submit(pick::remote(&unset, &unset, true));
    while runtime.calls().iter().all(|call| call.state != CallState::Alias) {
        std::thread::yield_now();
    }
    for call in [waiting, stands] {
        runtime.cancel(&call);
        assert!(call.fetch().is_err());
    }
    unset.release();
    while runtime.references().owned > 0 || !runtime.calls().is_empty() {
        std::thread::yield_now();
    }
}

#[test]
fn a_call_whose_reference_was_dropped_runs_all_the_same_and_leaves_nothing() {
    let runtime = Runtime::new();
    let _workers = with_workers::<2>(&runtime);
    let notes = Notes::new("dropped");
    drop(runtime.submit(mortal::remote(&notes.0, 0)));
    while notes.runs() == 0 || !runtime.calls().is_empty() || runtime.references().owned > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn wait_tells_which_values_are_there() {
    let runtime = Runtime::new();
    let [a, _b] = with_wide_workers(&runtime);
    let gate = Gate::closed("wait");
    let mut references: Vec<Ref<u64>> = vec![runtime.submit(at_gate::remote(&gate.path, 0))];
    references.extend((1..4).map(|x| runtime.submit(one_of::remote(x))));
    references.push(a.keep(one_of::remote(4)));
    let long = Duration::from_secs(60);
    let (done, left) = runtime.wait(&references, 4, long).unwrap();
    assert_eq!(
        done.iter().map(|done| *done.fetch().unwrap()).collect::<Vec<_>>(),
        [1, 2, 3, 4]
    );
    let (none, left) = runtime.wait(&left, 1, SOON).unwrap();
    assert_eq!((none.len(), left.len()), (0, 1));
    let waiting = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| runtime.wait(&left, 9, long).unwrap());
        drop(gate);
        waiting.join().unwrap()
    });
    assert_eq!((waiting.0.len(), waiting.1.len()), (1, 0));
    let (done, left) = runtime.wait(&[] as &[Ref<u64>], 1, long).unwrap();
    assert!(done.is_empty() && left.is_empty());
}

#[remote]
async fn refused_to_wait(references: [Ref<u64>; 1], tried: RemoteChannel<()>) -> Result<u64> {
    let runtime = Runtime::current()?;
    let refused = runtime.wait(&references, 1, Duration::from_secs(60));
    assert!(
        matches!(refused, Err(FetchError::WouldBlock { .. })),
        "{refused:?}"
    );
    tried.put_async(()).await?;
    // An error costs no reference.
    let (done, left) = runtime.wait_async(&references, 1).await;
    assert!(left.is_empty());
    Ok(*(&done[0]).await?)
}

#[test]
fn a_wait_that_is_refused_costs_no_reference_and_an_await_needs_no_thread() {
    let runtime = Runtime::new();
    let [a, b] = with_wide_workers(&runtime);
    let gate = Gate::closed("wait-async");
    let kept: Ref<u64> = a.keep(at_gate::remote(&gate.path, 5));
    let tried = runtime.channel(1).unwrap();
    let value = runtime.call(refused_to_wait::remote([kept.clone()], &tried).on(&b));
    let made: Vec<Ref<u64>> = (0..3).map(|x| runtime.submit(one_of::remote(x))).collect();
    let mixed = [kept, made[0].clone(), made[1].clone(), made[2].clone()];
    let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (done, left) = tokio.block_on(runtime.wait_async(&mixed, 3));
    assert_eq!(
        done.iter().map(Ref::id).collect::<Vec<_>>(),
        made.iter().map(Ref::id).collect::<Vec<_>>()
    );
    assert_eq!(left.iter().map(Ref::id).collect::<Vec<_>>(), [mixed[0].id()]);
    let (none, all) = tokio.block_on(runtime.wait_async(&mixed, 0));
    assert_eq!((none.len(), all.len()), (0, 4));
    tried.take().unwrap();
    drop(gate);
    assert_eq!(value.wait().unwrap(), 5);
    let (done, left) = tokio.block_on(runtime.wait_async(&mixed, 9));
    assert_eq!((done.len(), left.len()), (4, 0));
}

#[test]
fn rfn_04_rtask_06_functions_and_calls_can_be_looked_at() {
    let runtime = Runtime::new();
    let functions = runtime.functions();
    let mortal = functions
        .iter()
        .find(|function| function.path.ends_with("::mortal"))
        .unwrap();
    assert_eq!(
        (mortal.retries, mortal.signature.contains("lives")),
        (Some(2), true)
    );
    assert!(
        functions
            .iter()
            .any(|function| function.path.ends_with("::one_of") && function.retries.is_none())
    );
    let [worker] = with_workers(&runtime);
    worker.offers(Resources::cpus(2));
    let gate = Gate::closed("listed");
    let running: Ref<u64> = runtime.submit(at_gate::remote(&gate.path, 1));
    let after: Ref<u64> = runtime.submit(sum::remote(&running, 1).cpus(2));
    let calls = runtime.calls();
    let listed: Vec<_> = calls
        .iter()
        .map(|call| (call.state, call.attempts, call.needs.clone()))
        .collect();
    assert!(matches!(listed[0].0, CallState::Running(_)), "{listed:?}");
    assert_eq!(listed[1], (CallState::Queued, 1, Resources::cpus(2)));
    assert_ne!(calls[0].digest, calls[1].digest);
    drop(gate);
    assert_eq!(*after.fetch().unwrap(), 2);
    assert_eq!(runtime.calls()[1].state, CallState::Made);
}

/// Waits for a reference that stands for the call itself.
#[remote]
fn returns(own: Ref<Ref<u64>>) -> Result<Ref<u64>> {
    Ok((*own.fetch()?).clone())
}

/// Submits such a call.
#[remote]
fn submits(own: Ref<Ref<u64>>) -> Result<Ref<u64>> {
    Ok(Runtime::current()?.submit(returns::remote(&own)))
}

/// E-17: Photon looked for the canonical reference of a circle of aliases for ever.
#[test]
fn alias_21_a_function_that_returns_its_own_reference_fails_and_nobody_waits() {
    let runtime = Runtime::new();
    let workers = with_workers::<2>(&runtime);
    let own = runtime.unset::<Ref<u64>>();
    let itself: Ref<u64> = runtime.submit(returns::remote(&own.clone()));
    own.set(itself.clone()).unwrap();
    let error = itself.fetch().unwrap_err();
    assert!(error.to_string().contains("cannot stand for itself"), "{error}");
    for submitters in [[None; 2], workers.each_ref().map(Some)] {
        let [a, b] = [(); 2].map(|()| runtime.unset::<Ref<u64>>());
        let submit = |own: &Ref<Ref<u64>>, from: Option<&Worker>| match from {
            Some(worker) => runtime.call(submits::remote(own).on(worker)).wait().unwrap(),
            None => runtime.submit(returns::remote(own)),
        };
        let (x, y): (Ref<u64>, Ref<u64>) = (submit(&a, submitters[0]), submit(&b, submitters[1]));
        a.set(y.clone()).unwrap();
        b.set(x.clone()).unwrap();
        for error in [x.fetch().unwrap_err(), y.fetch().unwrap_err()] {
            assert!(
                error.to_string().contains("neither would have a value"),
                "{error}"
            );
        }
    }
}
