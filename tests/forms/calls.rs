//! Ordinary calls, outside any graph.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::actors::{Counter, Gate, Negative, PLACEMENTS, REMOTE, Text, counter};
use selvedge::prelude::*;
use selvedge::{CallError, SpawnError};

#[test]
fn dag_51_calls_wait_or_await() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        assert_eq!(a.call().inc(2).wait()?, 2);
        let tokio = tokio::runtime::Builder::new_current_thread().build()?;
        assert_eq!(
            tokio.block_on(async { a.call().add(1, 2).await })?,
            3,
            "{placement}"
        );
        let text = runtime.spawn::<Text>("t", ()).place(placement)?;
        assert_eq!(text.call().upper("abc".into()).wait()?, "ABC");
        assert_eq!(a.call().later(1).wait()?, 2, "{placement}");
    }
    Ok(())
}

#[test]
fn dag_51_an_answer_that_has_been_fetched_is_said_to_be() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        for fails in [false, true] {
            let x = if fails { -1 } else { 1 };
            let mut call = a.call().fail_if_negative(x);
            assert_eq!(call.wait_timeout(Duration::from_secs(60)).is_err(), fails);
            let again = call.wait_timeout(Duration::from_secs(60));
            assert!(
                matches!(again, Err(CallError::Taken { .. })),
                "{placement}: {again:?}"
            );
            let tokio = tokio::runtime::Builder::new_current_thread().build()?;
            let awaited = tokio.block_on(call);
            assert!(
                matches!(awaited, Err(CallError::Taken { .. })),
                "{placement}: {awaited:?}"
            );
        }
    }
    Ok(())
}

#[test]
fn task_09_errors_and_panics_of_calls_name_actor_and_method() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let text = a
            .call()
            .fail_if_negative(-5)
            .wait()
            .expect_err("an error")
            .to_string();
        assert!(
            text.contains("-5 is negative") && text.contains("fail_if_negative"),
            "{placement}: {text}"
        );
        let text = a
            .call()
            .panic_if_negative(-6)
            .wait()
            .expect_err("a panic")
            .to_string();
        assert!(
            text.contains("-6 is negative") && text.contains("panic_if_negative"),
            "{placement}: {text}"
        );
        assert_eq!(a.call().echo(1).wait()?, 1, "the actor lives on");
    }
    let _ = Negative(0);
    Ok(())
}

#[test]
fn task_09_a_panic_in_a_call_follows_the_policy() -> Result<()> {
    for (policy, kept) in [(OnPanic::Keep, 15), (OnPanic::Rebuild, 10)] {
        for placement in PLACEMENTS {
            let runtime = Runtime::new();
            let a = runtime
                .spawn::<Counter>("a", (10,))
                .on_panic(policy)
                .place(placement)?;
            a.call().inc(5).wait()?;
            assert!(a.call().panic_if_negative(-1).wait().is_err());
            assert_eq!(a.call().total(()).wait()?, kept, "{placement} {policy:?}");
        }
    }
    Ok(())
}

#[test]
fn dag_45_calls_from_many_threads_are_served_one_at_a_time() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                let a = a.clone();
                scope.spawn(move || (0..50).for_each(|_| assert!(a.call().inc(1).wait().is_ok())));
            }
        });
        assert_eq!(a.call().total(()).wait()?, 400, "{placement}");
    }
    Ok(())
}

/// A waker that panics without a message.
#[derive(Debug)]
struct Bomb;

impl std::task::Wake for Bomb {
    fn wake(self: Arc<Self>) {
        std::panic::resume_unwind(Box::new("this waker panics"));
    }
}

#[derive(Debug, thiserror::Error)]
#[error("an error that cannot be dropped")]
struct Spiteful;

impl Drop for Spiteful {
    fn drop(&mut self) {
        std::panic::resume_unwind(Box::new("this drop panics"));
    }
}

struct Grudge;

#[actor]
impl Grudge {
    pub fn new(refuses: bool) -> std::result::Result<Self, Spiteful> {
        if refuses { Err(Spiteful) } else { Ok(Grudge) }
    }

    pub fn fail(&mut self, fails: bool) -> std::result::Result<bool, Spiteful> {
        if fails { Err(Spiteful) } else { Ok(fails) }
    }
}

#[test]
fn a_waker_that_panics_costs_neither_the_actor_nor_the_watch_over_its_worker() -> Result<()> {
    for placement in REMOTE {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let other = counter(&runtime, "other", placement);
        let gate = Gate::closed();
        let mut call = Box::pin(a.call().pass(1, gate.path()));
        let waker = Waker::from(Arc::new(Bomb));
        assert!(call.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        gate.open();
        assert_eq!(a.call().echo(5).wait()?, 5, "{placement}");
        assert_eq!(other.call().echo(6).wait()?, 6, "{placement}");
        assert!(matches!(
            call.as_mut().poll(&mut Context::from_waker(&waker)),
            Poll::Ready(Ok(1))
        ));
        assert_eq!(
            runtime.compile(|x: Edge<i64>| other.echo(&a.echo(&x)))?.run(7)?,
            7
        );
        if placement == Placement::Process {
            let died = a.call().exit_if_negative(-1).wait();
            assert!(matches!(died, Err(CallError::ActorDied { .. })), "{died:?}");
        }
    }
    Ok(())
}

#[test]
fn an_error_whose_drop_panics_costs_neither_the_actor_nor_its_lane() -> Result<()> {
    let runtime = Runtime::new();
    let worker = runtime.worker("w")?;
    for lane in [runtime.lane("here"), worker.lane("there")] {
        let a = runtime.spawn::<Grudge>("a", (false,)).in_lane(&lane)?;
        let refused = runtime.spawn::<Grudge>("b", (true,)).in_lane(&lane);
        assert!(
            matches!(refused, Err(SpawnError::Constructor { .. })),
            "{refused:?}"
        );
        std::mem::forget(refused);
        // No caller waits for this answer: the answering thread drops the error, or this thread if the answer came at
        // once.
        let unheard = a.call().fail(true);
        let _ = catch_unwind(AssertUnwindSafe(|| drop(unheard)));
        let failed = a.call().fail(true).wait();
        assert!(
            failed
                .as_ref()
                .is_err_and(|error| error.to_string().contains("cannot be dropped"))
        );
        std::mem::forget(failed);
        assert!(!a.call().fail(false).wait()?);
    }
    Ok(())
}
