//! Ordinary calls, outside any graph.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod actors;

use actors::{Counter, Negative, PLACEMENTS, Text, counter};
use selvedge::prelude::*;

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
