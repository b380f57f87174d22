//! The end of references with their runtime.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use selvedge::prelude::*;
use selvedge::{FetchError, RefStats, SetError, ShutdownReport, cancellation};

use super::census::wait_until;

/// A time that no shutdown takes which has nothing to wait for.
const LONG: Duration = Duration::from_secs(60);

/// References that this process keeps until it ends.
static KEPT: Mutex<Vec<Ref<Vec<u64>>>> = Mutex::new(Vec::new());
static IS_STUCK: AtomicBool = AtomicBool::new(false);
static DROPPED: AtomicUsize = AtomicUsize::new(0);

#[remote]
fn keeps(rows: Ref<Vec<u64>>) {
    KEPT.lock().unwrap().push(rows);
}

#[remote]
fn load(rows: u64) -> Vec<u64> {
    (0..rows).collect()
}

#[remote]
fn is_stuck() -> bool {
    IS_STUCK.load(Ordering::SeqCst)
}

struct Counted;

impl Drop for Counted {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::SeqCst);
    }
}

#[remote]
fn counted() -> Counted {
    Counted
}

struct Stuck;

#[actor]
impl Stuck {
    pub fn new() -> Self {
        Stuck
    }

    pub fn never_returns(&self) {
        IS_STUCK.store(true, Ordering::SeqCst);
        loop {
            std::thread::park();
        }
    }
}

/// Works until it is interrupted, and then for some more time. Its last act is the file.
#[remote]
fn cleans_up(begun: RemoteChannel<()>, file: PathBuf) -> Result<u32> {
    // An interruption may come before the answer to this put.
    let _ = begun.put(());
    let token = cancellation();
    while !token.is_cancelled() {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(300));
    std::fs::write(&file, "clean")?;
    Ok(7)
}

#[remote]
fn number() -> u64 {
    7
}

#[test]
fn the_answer_to_a_fetch_that_comes_while_the_owner_ends_is_its_death() {
    let runtime = Runtime::new();
    let owner = runtime.worker("owner").unwrap();
    let value = owner.keep(number::remote());
    value.ready().unwrap();
    let begun = runtime.channel(1).unwrap();
    let file = std::env::temp_dir().join(format!("selvedge-ending-{}", std::process::id()));
    let call = runtime.call(lingers::remote(&begun, file.clone()).on(&owner));
    begun.take().unwrap();
    let ending = std::thread::spawn(move || owner.end(LONG));
    crate::census::wait_until(&true, || file.exists());
    let fetched = value.fetch();
    assert!(
        matches!(fetched, Err(FetchError::OwnerLost { .. })),
        "{fetched:?}"
    );
    ending.join().unwrap().unwrap();
    call.wait().unwrap();
    std::fs::remove_file(file).unwrap();
}

/// Makes the file some time after it was interrupted, and ends some time later.
#[remote]
fn lingers(begun: RemoteChannel<()>, file: PathBuf) -> Result<()> {
    // An interruption may come before the answer to this put.
    let _ = begun.put(());
    let token = cancellation();
    while !token.is_cancelled() {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(100));
    std::fs::write(&file, "ending")?;
    std::thread::sleep(Duration::from_millis(300));
    Ok(())
}

#[remote]
fn never_ends(begun: RemoteChannel<()>) -> Result<()> {
    // An interruption may come before the answer to this put.
    let _ = begun.put(());
    loop {
        std::thread::park();
    }
}

#[test]
fn a_function_that_runs_has_the_grace_to_clean_up_at_the_end_of_its_worker_and_of_its_runtime() {
    let runtime = Runtime::new();
    let [ended, other] = ["ended", "other"].map(|name| runtime.worker(name).unwrap());
    let begun = runtime.channel(1).unwrap();
    let mut calls = [&ended, &other].map(|worker| {
        let file = std::env::temp_dir().join(format!(
            "selvedge-clean-{}-{}",
            worker.process(),
            std::process::id()
        ));
        let call = runtime.call(cleans_up::remote(&begun, file.clone()).on(worker));
        begun.take().unwrap();
        (call, file)
    });
    ended.end(LONG).unwrap();
    let answer = calls[0].0.wait_timeout(LONG);
    assert_eq!(answer.unwrap(), 7, "its answer is not lost with the worker");
    assert_eq!(shut_down(&runtime), ShutdownReport::default());
    for (_, file) in &calls {
        std::fs::remove_file(file).unwrap();
    }
}

/// Is interrupted in its first run.
#[remote(pure)]
fn runs_twice(begun: RemoteChannel<()>, file: PathBuf) -> Result<u32> {
    if file.exists() {
        return Ok(7);
    }
    std::fs::write(&file, "begun")?;
    // An interruption may come before the answer to this put.
    let _ = begun.put(());
    let token = cancellation();
    while !token.is_cancelled() {
        std::thread::sleep(Duration::from_millis(1));
    }
    Err("interrupted".into())
}

#[test]
fn a_submitted_call_that_the_end_of_its_worker_interrupts_runs_on_another_one() {
    let runtime = Runtime::new();
    let ended = runtime.worker("ended").unwrap();
    let begun = runtime.channel(1).unwrap();
    let file = std::env::temp_dir().join(format!("selvedge-twice-{}", std::process::id()));
    let value = runtime.submit(runs_twice::remote(&begun, file.clone()));
    begun.take().unwrap();
    let _other = runtime.worker("other").unwrap();
    ended.end(LONG).unwrap();
    assert_eq!(*value.fetch().unwrap(), 7);
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_worker_whose_function_does_not_return_is_named_by_the_shutdown() {
    let runtime = Runtime::new();
    let worker = runtime.worker("busy").unwrap();
    let begun = runtime.channel(1).unwrap();
    let _never = runtime.call(never_ends::remote(&begun).on(&worker));
    begun.take().unwrap();
    let report = runtime.shutdown(Duration::from_millis(500));
    assert_eq!(report.killed_workers, ["busy"]);
}

/// Shuts a runtime down that has nothing to wait for.
fn shut_down(runtime: &Runtime) -> ShutdownReport {
    let begun = Instant::now();
    let report = runtime.shutdown(LONG);
    assert!(begun.elapsed() < LONG / 2, "{report:?}");
    report
}

#[test]
fn rref_37_a_shutdown_names_the_references_of_a_worker_that_had_to_be_killed() {
    let runtime = Runtime::new();
    let [killed, other] = ["killed", "other"].map(|name| runtime.worker(name).unwrap());
    let rows = runtime.put(vec![1_u64, 2]).unwrap();
    for worker in [&killed, &other] {
        runtime.call(keeps::remote(&rows).on(worker)).wait().unwrap();
    }
    let stuck = runtime.spawn::<Stuck>("stuck", ()).in_worker(&killed).unwrap();
    let never = stuck.call().never_returns();
    wait_until(&true, || {
        runtime.call(is_stuck::remote().on(&killed)).wait().unwrap()
    });
    let report = runtime.shutdown(Duration::from_secs(1));
    assert_eq!(report.killed_workers, ["killed"]);
    let leaked: Vec<_> = report
        .leaked_references
        .iter()
        .map(|leaked| (leaked.id(), leaked.process().worker()))
        .collect();
    assert_eq!(leaked, [(Some(rows.id()), Some("killed"))], "{report:?}");
    let text = report.leaked_references[0].to_string();
    assert!(
        text.starts_with("worker `killed` (process ") && text.contains("holds reference"),
        "{text}"
    );
    assert!(never.wait().is_err());
}

#[test]
fn rref_37_a_shutdown_ends_references_that_are_still_held_and_waits_for_none_of_them() {
    let runtime = Runtime::new();
    let worker = runtime.worker("w").unwrap();
    let [there, fetched] = [(); 2].map(|()| worker.keep(load::remote(10)));
    assert_eq!(fetched.fetch().unwrap().len(), 10);
    let here = runtime.put(vec![1_u64, 2]).unwrap();
    // Both sides keep references of the other's.
    for rows in [&here, &there] {
        runtime.call(keeps::remote(rows).on(&worker)).wait().unwrap();
    }
    let counted = runtime.keep(counted::remote().on_process(runtime.process()));
    counted.ready().unwrap();
    let unset = runtime.unset::<Vec<u64>>();
    let waiting = std::thread::spawn({
        let unset = unset.clone();
        move || unset.fetch()
    });
    assert_eq!(runtime.references().owned, 3);
    assert_eq!(shut_down(&runtime), ShutdownReport::default());
    assert_eq!(runtime.references(), RefStats::default());
    assert_eq!(DROPPED.load(Ordering::SeqCst), 1, "nobody can fetch the value");
    let failed = [
        there.fetch(),
        here.fetch(),
        unset.fetch(),
        waiting.join().unwrap(),
    ];
    for error in failed.map(Result::unwrap_err) {
        assert!(matches!(error, FetchError::Shutdown { .. }), "{error}");
    }
    assert!(counted.local().is_none() && counted.ready().is_err());
    let error = unset.set(Vec::new()).unwrap_err();
    assert!(
        matches!(error, SetError::NoAnswer(FetchError::Shutdown { .. })),
        "{error}"
    );
    assert_eq!(fetched.fetch().unwrap().len(), 10, "the copy of this process");
}

#[test]
fn rref_37_the_end_of_a_runtime_without_references_leaves_none() {
    let runtime = Runtime::new();
    assert_eq!(shut_down(&runtime), ShutdownReport::default());
    let late = runtime.keep(load::remote(1));
    assert!(matches!(late.fetch(), Err(FetchError::Failed { .. })));

    let runtime = Runtime::new();
    let worker = runtime.worker("w").unwrap();
    assert_eq!(
        runtime.call(load::remote(3).on(&worker)).wait().unwrap(),
        [0, 1, 2]
    );
    assert_eq!(shut_down(&runtime), ShutdownReport::default());

    // The drop of a runtime is its end, too.
    let rows = Runtime::new().put(vec![1_u64]).unwrap();
    assert!(matches!(rows.fetch(), Err(FetchError::Shutdown { .. })));
}

#[test]
fn a_function_that_does_not_return_takes_no_grace_from_workers() {
    #[remote]
    fn waits_at_the_gate() {
        HAS_BEGUN.store(true, Ordering::SeqCst);
        drop(GATE.lock());
    }
    static HAS_BEGUN: AtomicBool = AtomicBool::new(false);
    static GATE: Mutex<()> = Mutex::new(());

    let runtime = Runtime::new();
    let worker = runtime.worker("w").unwrap();
    let closed = GATE.lock().unwrap();
    let call = runtime.call(waits_at_the_gate::remote().on_process(runtime.process()));
    wait_until(&true, || HAS_BEGUN.load(Ordering::SeqCst));
    assert_eq!(runtime.call(load::remote(1).on(&worker)).wait().unwrap(), [0]);
    let report = runtime.shutdown(Duration::from_secs(2));
    assert_eq!(report.stuck_lanes, ["remote functions"]);
    assert!(report.killed_workers.is_empty(), "{report:?}");
    drop(closed);
    call.wait().unwrap();
}

#[remote]
fn shuts_down() -> Result<bool> {
    Ok(Runtime::current()?.shutdown(LONG) == ShutdownReport::default())
}

#[test]
fn a_shutdown_in_a_worker_ends_nothing() {
    let runtime = Runtime::new();
    let worker = runtime.worker("w").unwrap();
    let limit = Duration::from_secs(30);
    for _ in 0..2 {
        let mut call = runtime.call(shuts_down::remote().on(&worker));
        assert!(call.wait_timeout(limit).unwrap());
    }
    assert_eq!(runtime.shutdown(LONG), ShutdownReport::default());
}

/// Puts tensors and fetches them until that fails.
fn put_and_fetch(runtime: &Runtime) -> Result<()> {
    loop {
        let tensor = Tensor::from_slice(&[1_u8; 50_000], &[50_000])?;
        let _ = runtime.put(tensor)?.fetch()?;
    }
}

#[test]
fn who_puts_or_fetches_when_the_runtime_is_shut_down_learns_that_and_not_that_the_store_is_empty() {
    for round in 0..30 {
        let runtime = Runtime::new();
        std::thread::scope(|scope| {
            let users: Vec<_> = (0..3).map(|_| scope.spawn(|| put_and_fetch(&runtime))).collect();
            // The rounds end at different places of the loops.
            std::thread::sleep(Duration::from_micros(300 * (round % 10)));
            let _ = runtime.shutdown(Duration::from_secs(20));
            for user in users {
                let error = user.join().unwrap().unwrap_err().to_string();
                assert!(error.contains("the runtime was shut down"), "{error}");
            }
        });
    }
}
