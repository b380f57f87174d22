//! Actors whose methods put values, fetch them and submit calls.

use std::time::Duration;

use selvedge::prelude::*;
use selvedge::{Call, CallError};

#[remote(pure)]
fn doubled(x: u64) -> u64 {
    2 * x
}

struct Archive;

#[actor]
impl Archive {
    pub fn new() -> Result<Self> {
        Ok(Archive)
    }

    /// Puts numbers, and returns the sum of what it fetches.
    pub fn stored(&mut self, numbers: Vec<u64>) -> Result<u64> {
        let kept = Runtime::current()?.put(numbers)?;
        Ok(kept.fetch()?.iter().sum())
    }

    pub fn submitted(&mut self, x: u64) -> Result<u64> {
        Ok(*Runtime::current()?.submit(doubled::remote(x)).fetch()?)
    }

    /// Waits for a value until there is one.
    pub fn fetched(&mut self, value: &Ref<u64>) -> Result<u64> {
        Ok(*value.fetch()?)
    }

    pub fn slept(&mut self, time: Duration) {
        std::thread::sleep(time);
    }

    pub async fn called(&self, x: u64) -> Result<u64> {
        Ok(Runtime::current()?.call(doubled::remote(x)).await?)
    }
}

#[test]
fn an_actor_with_a_thread_finds_the_runtime_that_spawned_it() -> Result<()> {
    let runtime = Runtime::new();
    for place in [Placement::Thread, Placement::Process] {
        let archive = runtime.spawn::<Archive>("archive", ()).place(place)?;
        assert_eq!(archive.call().stored(vec![1, 2, 3]).wait()?, 6, "{place}");
        assert_eq!(archive.call().submitted(4).wait()?, 8, "{place}");
        assert_eq!(archive.call().called(5).wait()?, 10, "{place}");
        let graph = runtime.compile(|x: Edge<u64>| archive.submitted(&archive.called(&x)))?;
        assert_eq!(graph.execute(6).wait()?, 24, "{place}");
    }
    Ok(())
}

#[test]
fn an_inline_actor_has_no_runtime_and_neither_has_a_thread_of_the_user() -> Result<()> {
    let runtime = Runtime::new();
    let archive = runtime.spawn::<Archive>("archive", ()).inline()?;
    let refused = archive.call().submitted(4).wait().unwrap_err();
    assert!(refused.to_string().contains("no runtime here"), "{refused}");
    assert!(Runtime::current().is_err());
    Ok(())
}

#[test]
fn the_end_of_a_runtime_ends_the_wait_of_a_method_in_any_place() -> Result<()> {
    for place in [Placement::Thread, Placement::Process] {
        let runtime = Runtime::new();
        let archive = runtime.spawn::<Archive>("archive", ()).place(place)?;
        let never = runtime.unset::<u64>();
        // The lane has the call before it is told to end.
        let call = archive.call().fetched(never.clone());
        let report = runtime.shutdown(Duration::from_secs(60));
        assert!(report.killed_workers.is_empty(), "{place}: {report:?}");
        assert!(report.stuck_lanes.is_empty(), "{place}: {report:?}");
        assert!(call.wait().is_err(), "{place}");
    }
    Ok(())
}

#[test]
fn an_async_function_is_refused_a_wait_for_a_method_and_awaits_it() -> Result<()> {
    #[remote]
    async fn asks() -> Result<u64> {
        let runtime = Runtime::current()?;
        let archive = runtime.spawn::<Archive>("archive", ()).in_thread()?;
        let value = runtime.unset::<u64>();
        let mut call = archive.call().fetched(value.clone());
        let refused = call.wait_timeout(Duration::from_secs(60)).unwrap_err();
        assert!(matches!(refused, CallError::WouldBlock { .. }), "{refused}");
        let any = Call::wait_any(std::slice::from_mut(&mut call), Duration::from_secs(60));
        assert!(matches!(any, Err(CallError::WouldBlock { .. })), "{any:?}");
        value.set(5)?;
        Ok(call.await?)
    }
    assert_eq!(Runtime::new().call(asks::remote()).wait()?, 5);
    Ok(())
}

#[remote]
fn sleeps(begun: RemoteChannel<()>, time: Duration) -> Result<()> {
    // An interruption may come before the answer to this put.
    let _ = begun.put(());
    std::thread::sleep(time);
    Ok(())
}

#[test]
fn the_call_of_a_function_whose_worker_was_ended_says_so() -> Result<()> {
    let runtime = Runtime::new();
    let worker = runtime.worker("w")?;
    let begun = runtime.channel(1)?;
    let call = runtime.call(sleeps::remote(&begun, Duration::from_secs(60)).on(&worker));
    begun.take()?;
    // The function does not return, so the process is ended by force.
    assert!(worker.end(Duration::from_millis(50)).is_err());
    let error = call.wait().unwrap_err();
    assert!(error.to_string().contains("it was told to end"), "{error}");
    Ok(())
}

#[test]
fn the_call_of_an_actor_whose_worker_was_ended_names_the_actor_and_the_reason() -> Result<()> {
    let runtime = Runtime::new();
    let worker = runtime.worker("w")?;
    let archive = runtime.spawn::<Archive>("archive", ()).in_worker(&worker)?;
    let call = archive.call().slept(Duration::from_secs(20));
    std::thread::sleep(Duration::from_millis(100));
    // The method does not return, so the process is ended by force.
    let _ = worker.end(Duration::from_millis(50));
    let error = call.wait().unwrap_err();
    assert!(
        matches!(&error, CallError::ActorDied { actor, .. } if actor == "archive"),
        "{error}"
    );
    let text = error.to_string();
    assert!(
        text.contains("actor `archive`") && text.contains("its worker was ended"),
        "{text}"
    );
    Ok(())
}
