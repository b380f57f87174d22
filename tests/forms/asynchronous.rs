//! A graph in asynchronous code: `.await` and streams, on any executor.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::actors::{Gate, PLACEMENTS, REMOTE, counter};
use futures_util::future::join_all;
use futures_util::{FutureExt, StreamExt};
use selvedge::prelude::*;

fn on_tokio<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("runtime")
        .block_on(future)
}

#[test]
fn dag_44_ten_concurrent_executions_resolve_in_any_order_of_await() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let graph = runtime.compile(|x: Edge<i64>| a.inc(&x))?;
        let results = on_tokio(async {
            let mut executions: Vec<_> = (0..10).map(|_| graph.execute(1)).collect();
            executions.reverse();
            join_all(executions).await
        });
        let values: Vec<i64> = results.into_iter().collect::<std::result::Result<_, _>>()?;
        assert_eq!(values, (1..=10).rev().collect::<Vec<_>>(), "{placement}");
    }
    Ok(())
}

#[test]
fn dag_44_a_stream_keeps_order() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let (a, b) = (
            counter(&runtime, "a", placement),
            counter(&runtime, "b", placement),
        );
        let graph = runtime.compile_with(Options::new().max_inflight(4), |x: Edge<i64>| {
            b.scale(&a.echo(&x), 2)
        })?;
        let items = futures_util::stream::iter(0..300);
        let results: Vec<i64> = on_tokio(graph.stream(items).map(|result| result.expect("value")).collect());
        assert_eq!(
            results,
            (0..300).map(|x| 2 * x).collect::<Vec<_>>(),
            "{placement}"
        );
    }
    Ok(())
}

#[test]
fn dag_44_a_stream_takes_no_more_than_may_be_in_flight() -> Result<()> {
    for placement in REMOTE {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let gate = Gate::closed();
        let options = Options::new().max_inflight(4);
        let graph = runtime.compile_with(options, |x: Edge<i64>| a.pass(&x, gate.path()))?;
        let taken = std::cell::Cell::new(0);
        let items = futures_util::stream::iter(0..40).inspect(|_| taken.set(taken.get() + 1));
        on_tokio(within(async {
            let mut results = graph.stream(items);
            for _ in 0..3 {
                assert!(results.next().now_or_never().is_none(), "{placement}");
                assert_eq!((taken.get(), graph.counters().submitted), (4, 4), "{placement}");
            }
            gate.open();
            let mut given = 0;
            while let Some(result) = results.next().await {
                assert_eq!(result.expect("value"), given, "{placement}");
                given += 1;
                assert!(
                    taken.get() < given + 4,
                    "{placement}: {} taken, {given} given",
                    taken.get()
                );
            }
            assert_eq!((given, taken.get()), (40, 40), "{placement}");
        }));
    }
    Ok(())
}

#[test]
fn dag_32_a_map_a_stream_and_a_profile_lose_nothing_where_few_results_may_wait() -> Result<()> {
    for placement in PLACEMENTS {
        for buffered in [1, 3] {
            let runtime = Runtime::new();
            let a = counter(&runtime, "a", placement);
            let options = Options::new().max_inflight(4).max_buffered(buffered).trace(64);
            let graph = runtime.compile_with(options, |x: Edge<i64>| a.echo(&x))?;
            let expected: Vec<i64> = (0..50).collect();
            let mapped: std::result::Result<Vec<i64>, _> = graph.map(0..50).collect();
            assert_eq!(mapped?, expected, "{placement}, {buffered}");
            let items = futures_util::stream::iter(0..50);
            let streamed: Vec<_> = on_tokio(within(graph.stream(items).collect()));
            let streamed: std::result::Result<Vec<i64>, _> = streamed.into_iter().collect();
            assert_eq!(streamed?, expected, "{placement}, {buffered}");
            graph.profile(50, |x| x as i64)?;
        }
    }
    Ok(())
}

#[test]
fn dag_44_errors_arrive_as_in_synchronous_code() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let graph = runtime.compile(|x: Edge<i64>| a.fail_if_negative(&x))?;
        on_tokio(async {
            for _ in 0..3 {
                assert!(matches!(graph.execute(-1).await, Err(ExecError::Task(_))));
                assert_eq!(graph.execute(1).await.expect("value"), 1, "{placement}");
            }
        });
    }
    Ok(())
}

#[test]
fn dag_44_a_future_that_is_dropped_while_it_is_pending_is_cancelled() -> Result<()> {
    for placement in REMOTE {
        let runtime = Runtime::new();
        let (a, b) = (
            counter(&runtime, "a", placement),
            counter(&runtime, "b", placement),
        );
        let gate = Gate::closed();
        let graph = runtime.compile(|x: Edge<i64>| b.inc(&a.pass(&x, gate.path())))?;
        on_tokio(within(async {
            let mut first = graph.execute(1);
            gate.reached(1);
            let dropped = graph.execute(10).now_or_never();
            assert!(dropped.is_none(), "{placement}");
            // A thread that waits for one execution also closes the outputs that others have dropped.
            let waited = first.wait_timeout(Duration::from_millis(100));
            assert!(matches!(waited, Err(ExecError::Timeout(_))), "{placement}");
            gate.open();
            assert_eq!(first.await.expect("value"), 1, "{placement}");
            assert_eq!(graph.execute(100).await.expect("value"), 101, "{placement}");
        }));
        assert_eq!(gate.visits(), 2, "{placement}");
    }
    Ok(())
}

#[test]
fn dag_44_awaiting_and_waiting_threads_share_one_graph() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let graph = runtime.compile(|x: Edge<i64>| a.echo(&x))?;
        std::thread::scope(|scope| {
            let graph = &graph;
            for _ in 0..2 {
                scope.spawn(move || {
                    (0..300).for_each(|x| assert_eq!(graph.execute(x).wait().expect("value"), x))
                });
                scope.spawn(move || {
                    on_tokio(async {
                        for x in 0..300 {
                            assert_eq!(graph.execute(x).await.expect("value"), x);
                        }
                    });
                });
            }
        });
    }
    Ok(())
}

#[test]
fn dag_42_a_pending_await_ends_when_the_graph_is_torn_down() -> Result<()> {
    for placement in REMOTE {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let gate = Gate::closed();
        let options = Options::new().teardown_timeout(Duration::from_secs(60));
        let graph = runtime.compile_with(options, |x: Edge<i64>| a.pass(&x, gate.path()))?;
        let mut pending = graph.execute(200);
        gate.reached(1);
        let (tell, told) = channel();
        std::thread::scope(|scope| {
            let awaiting = poll_fn(|context| {
                let polled = pending.poll_unpin(context);
                let _ = tell.send(polled.is_pending());
                polled
            });
            let waiter = scope.spawn(|| on_tokio(within(awaiting)));
            assert_eq!(told.recv(), Ok(true), "{placement}");
            let teardown = scope.spawn(|| graph.teardown());
            // The method is still at the gate.
            let result = waiter.join().expect("no panic");
            assert!(
                matches!(result, Err(ExecError::TornDown { .. })),
                "{placement}: {result:?}"
            );
            gate.open();
            assert!(teardown.join().expect("no panic").stuck.is_empty(), "{placement}");
        });
    }
    Ok(())
}

/// Awaits `future`, and fails after 60 seconds.
async fn within<T>(future: impl Future<Output = T>) -> T {
    let limit = tokio::time::timeout(Duration::from_secs(60), future);
    limit.await.expect("an end")
}

#[test]
fn dag_44_an_await_keeps_the_time_limit_of_a_wait() -> Result<()> {
    for placement in REMOTE {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let gate = Gate::closed();
        let options = Options::new().timeout(Duration::from_millis(30));
        let graph = runtime.compile_with(options, |x: Edge<i64>| a.pass(&x, gate.path()))?;
        on_tokio(async {
            let mut first = graph.execute(1);
            gate.reached(1);
            let all: Vec<_> = (2..6).map(|x| graph.execute(x)).collect();
            let (late, others) = within(async { ((&mut first).await, join_all(all).await) }).await;
            for result in others.into_iter().chain([late]) {
                let Err(ExecError::Timeout(timeout)) = result else {
                    panic!("{placement}: {result:?}")
                };
                assert_eq!(timeout.option, "Options::timeout");
                assert!(timeout.waited >= Duration::from_millis(30), "{timeout}");
                assert_eq!(timeout.suspects[0].task, "a.pass");
            }
            // A caller of `poll_result` keeps a time limit of its own; the limit of the graph does not apply.
            let mut own = Box::pin(within(poll_fn(|context| first.poll_result(context))));
            let soon = tokio::time::timeout(Duration::from_millis(90), &mut own).await;
            assert!(soon.is_err(), "{placement}: {soon:?}");
            gate.open();
            assert_eq!(own.await.expect("value"), 1, "{placement}: the execution went on");
            let mut next = graph.execute(9);
            let next = within(poll_fn(|context| next.poll_result(context))).await;
            assert_eq!(next.expect("value"), 9);
        });
    }
    Ok(())
}

#[test]
fn dag_44_an_await_that_is_late_may_be_awaited_again() -> Result<()> {
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Thread);
    let gate = Gate::closed();
    let options = Options::new().timeout(Duration::from_millis(20));
    let graph = runtime.compile_with(options, |x: Edge<i64>| a.pass(&x, gate.path()))?;
    on_tokio(async {
        let mut execution = graph.execute(1);
        for _ in 0..3 {
            let late = within(Pin::new(&mut execution)).await;
            assert!(matches!(late, Err(ExecError::Timeout(_))), "{late:?}");
        }
        gate.open();
        let value = within(poll_fn(|context| execution.poll_result(context))).await;
        assert_eq!(value.expect("value"), 1);
    });
    Ok(())
}
