//! The fast path of a run: an execution from its input to its result, for a thread that has the graph to itself.
//!
//! Most of the cost of an execution below one microsecond pays for the freedom to wait for it on any thread, at any
//! time and in any order: a handle that shares the graph, an entry in the driver's records, a lock to submit and a lock
//! to fetch. A thread that waits at once and alone needs none of these.

use selvedge_channels::AnyOutlet;

use crate::api::execution::Take;
use crate::run::driver::Driver;
use crate::run::engine::Engine;
use crate::run::engine::time_limit::TimeLimit;
use crate::run::error::ExecError;

/// The outcome of the fast path. It is written to the place that the caller provides: passing it through all the code
/// that waits would cost more than everything else on that path.
pub(crate) enum Through<Out> {
    /// The execution has ended with this result.
    Done(Result<Out, ExecError>),
    /// The execution was submitted. The caller waits for it in the usual way, for the rest of the time limit.
    Submitted(u64, TimeLimit),
    /// The fast path did not apply. The caller submits in the usual way.
    Refused,
}

impl Engine {
    /// Publishes the input with `send`, or stages it with `stage` if that fails, and waits for the result while it
    /// holds the driver: for as long as a wait spins, and only while no other thread wants the driver. The caller sets
    /// `through` to `Refused` beforehand.
    #[inline]
    pub(crate) fn run_through<Out>(
        &self,
        take: Take<Out>,
        through: &mut Through<Out>,
        send: impl FnOnce(&mut dyn AnyOutlet) -> bool,
        stage: impl FnOnce(&mut Driver) -> Result<(), ExecError>,
    ) {
        // If the driver is not free, `through` stays refused.
        let _ = self.driver.try_with(|driver| {
            // A leading thread waits for an answer and would have to be told of every move.
            if self.turn.is_led() || !driver.is_idle() || !self.control.is_running() {
                return;
            }
            let execution = if driver.sole_input().is_some_and(send) {
                driver.sent()
            } else if driver.has_room() {
                let sent = stage(driver)
                    .and_then(|()| driver.publish_inputs().map_err(|error| self.broke(driver, error)));
                match sent {
                    Ok(execution) => execution,
                    Err(error) => {
                        *through = Through::Done(Err(error));
                        return;
                    }
                }
            } else {
                return;
            };
            self.await_through(driver, execution, take, through);
        });
    }

    #[inline]
    fn await_through<Out>(
        &self,
        driver: &mut Driver,
        execution: u64,
        take: Take<Out>,
        through: &mut Through<Out>,
    ) {
        // The clock is read only after the input is published, because the lanes wait for the input.
        let patience = self.patience();
        let stopped = driver.coming().is_none_or(|mut coming| {
            self.budget.waiting().spin_on(
                patience.deadline(),
                &mut coming,
                |coming| coming.stirs(),
                |coming, stirs| {
                    stirs || coming.stirs() || self.driver.is_wanted() || !self.control.is_running()
                },
            )
        });
        // A message that has arrived and cannot be taken is a fault.
        if stopped && let Some(taken) = driver.take_at_once(execution, &self.recipe.lengths, take) {
            *through = Through::Done(taken.map_err(|fault| self.error_of(execution, &fault)));
            return;
        }
        driver.book(execution, 1);
        if !stopped {
            patience.spent_spinning();
        }
        *through = Through::Submitted(execution, patience);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    use linkme::distributed_slice;
    use selvedge_channels::PayloadType;
    use selvedge_core::{
        ACTORS, Actor, ActorEntry, ActorRef, ActorState, BoxError, Failure, MethodEntry, ParamEntry, Runtime,
    };

    use super::*;
    use crate::api::graph::Graph;
    use crate::api::options::{Options, Wait};
    use crate::api::start::Compile;
    use crate::bind::bind;
    use crate::bind::edge::Edge;

    struct Echo;

    static ENTRY: ActorEntry = ActorEntry {
        name: Echo::NAME,
        place: "",
        create: |_| Ok(ActorState::new(Echo)),
        methods: &[MethodEntry {
            name: "echo",
            params: &[ParamEntry {
                name: "x",
                payload: || PayloadType::of::<i64>(),
                lists: Vec::new,
            }],
            result: || PayloadType::of::<i64>(),
            parts: Vec::new,
            compute: |_, frame| {
                let x = frame.take::<i64>(0)?;
                frame.finish(x)
            },
            call: |_, _, _| Err(Failure::Internal("nobody calls".into())),
        }],
    };

    #[distributed_slice(ACTORS)]
    static REGISTERED: fn() -> &'static ActorEntry = || &ENTRY;

    impl Actor for Echo {
        type Args = ();
        type Handle = ActorRef;
        const NAME: &'static str = "selvedge_compiler::through::Echo";

        fn entry() -> &'static ActorEntry {
            &ENTRY
        }

        fn create((): ()) -> Result<Self, BoxError> {
            Ok(Echo)
        }

        fn handle(actor: ActorRef) -> ActorRef {
            actor
        }
    }

    /// Tries the fast path with `x` and returns the outcome.
    fn ran<In: 'static, Out>(graph: &Graph<In, Out>, x: In) -> Through<Out> {
        let mut through = Through::Refused;
        graph.through(&Cell::new(Some(x)), &mut through);
        through
    }

    fn echo(runtime: &Runtime, inline: bool) -> ActorRef {
        let spawned = runtime.spawn::<Echo>("echo", ());
        let echo = if inline {
            spawned.inline()
        } else {
            spawned.in_thread()
        };
        echo.unwrap()
    }

    #[test]
    fn who_has_the_graph_to_himself_goes_through() {
        let runtime = Runtime::new();
        let echo = echo(&runtime, false);
        let one = |x: Edge<i64>| bind(&echo, 0).arg(&x).finish::<i64>();
        let options = Options::new().wait(Wait::Spin);
        let graph = runtime.compile_with(options.clone(), one).unwrap();
        for x in 0..100 {
            // Other threads may want the core meanwhile, but none wants the driver.
            let ran = ran(&graph, x);
            assert!(matches!(ran, Through::Done(Ok(found)) if found == x));
        }
        drop(graph);
        let tuple = |(x,): (Edge<i64>,)| bind(&echo, 0).arg(&x).finish::<i64>();
        let graph = runtime.compile_with(options.clone(), tuple).unwrap();
        let staged = ran(&graph, (7,));
        assert!(matches!(staged, Through::Done(Ok(7))));
        drop(graph);
        let straight = runtime.compile_with(options, |x: Edge<i64>| x).unwrap();
        let straight = ran(&straight, 8);
        assert!(matches!(straight, Through::Done(Ok(8))));
    }

    #[test]
    fn who_has_not_does_not() {
        let runtime = Runtime::new();
        let echo = echo(&runtime, false);
        let one = |x: Edge<i64>| bind(&echo, 0).arg(&x).finish::<i64>();
        let graph = runtime.compile_with(Options::new().max_inflight(4), one).unwrap();
        let held = graph.execute(1);
        let refused = ran(&graph, 2);
        assert!(matches!(refused, Through::Refused));
        assert_eq!(held.wait().unwrap(), 1);
        drop(graph);
        let parks = Options::new().wait(Wait::Park);
        let graph = runtime.compile_with(parks, one).unwrap();
        let submitted = ran(&graph, 3);
        assert!(matches!(submitted, Through::Submitted(0, _)));
    }

    #[test]
    fn what_is_computed_here_does_not() {
        let runtime = Runtime::new();
        let echo = echo(&runtime, true);
        let graph = runtime
            .compile(|x: Edge<i64>| bind(&echo, 0).arg(&x).finish::<i64>())
            .unwrap();
        let refused = ran(&graph, 2);
        assert!(matches!(refused, Through::Refused));
        assert_eq!(graph.run(2).unwrap(), 2);
    }

    #[test]
    fn what_is_dropped_while_somebody_has_the_driver_is_closed_by_who_waits() {
        const ROUNDS: u64 = 100;
        let runtime = Runtime::new();
        let echo = echo(&runtime, false);
        let options = Options::new().wait(Wait::Park);
        let graph = runtime
            .compile_with(options, |x: Edge<i64>| bind(&echo, 0).arg(&x).finish::<i64>())
            .unwrap();
        let engine = &graph.engine;
        let seen = |look: fn(&mut Driver) -> bool| {
            let until = Instant::now() + Duration::from_secs(60);
            while !engine.drive_soon(look).unwrap() {
                assert!(Instant::now() < until, "nobody looked");
                std::thread::yield_now();
            }
        };
        std::thread::scope(|scope| {
            // This thread alone pumps, and only dropped handles wake it.
            scope.spawn(|| {
                let patience = TimeLimit::new(Some(Duration::from_secs(120)), "");
                let all = |driver: &mut Driver| {
                    (driver.finished() == ROUNDS && driver.held() == 0).then_some(Ok(()))
                };
                engine.wait_for(&patience, all).unwrap().unwrap();
            });
            for x in 0..ROUNDS {
                let held = graph.execute(x as i64);
                seen(|driver| driver.finished() == driver.submitted());
                let dropped = engine.drive_soon(|_| {
                    std::thread::scope(|scope| scope.spawn(move || drop(held)).join().is_ok())
                });
                assert!(dropped.unwrap());
                seen(|driver| driver.held() == 0);
            }
        });
    }

    /// The largest number of entries in any of the driver's records.
    fn entries(graph: &Graph<i64, i64>) -> usize {
        let most = graph.engine.drive_soon(|driver| driver.entries().max());
        most.unwrap().unwrap()
    }

    #[test]
    fn a_result_that_nobody_fetches_does_not_make_the_books_grow() {
        for inline in [false, true] {
            let runtime = Runtime::new();
            let echo = echo(&runtime, inline);
            let options = Options::new().max_inflight(2).max_buffered(3);
            let graph = runtime
                .compile_with(options, |x: Edge<i64>| bind(&echo, 0).arg(&x).finish::<i64>())
                .unwrap();
            let held = graph.execute(-1);
            let forgotten = graph.execute(-2);
            std::mem::forget(forgotten);
            for x in 0..1000 {
                assert_eq!(graph.run(x).unwrap(), x);
                assert_eq!(graph.execute(x).wait().unwrap(), x);
                assert!(entries(&graph) <= 6, "a window of four, and two that are held");
            }
            // Both results count for as long as their handles exist, however long ago they arrived.
            let third = graph.execute(3);
            // The first of these submissions may succeed before the third result has arrived; its own result is fetched
            // after that.
            let full = (0..2).find_map(|_| match graph.try_execute(4) {
                Err(refused) => Some(refused.error),
                Ok(execution) => {
                    assert_eq!(execution.wait().unwrap(), 4);
                    None
                }
            });
            let full = full.unwrap();
            assert!(
                matches!(full, ExecError::ResultsBuffered { buffered: 3, .. }),
                "{full}"
            );
            assert!(matches!(graph.run(5), Err(ExecError::ResultsBuffered { .. })));
            assert_eq!(held.wait().unwrap(), -1);
            assert_eq!(graph.run(6).unwrap(), 6);
            assert_eq!(third.wait().unwrap(), 3);
            assert_eq!(graph.run(7).unwrap(), 7);
        }
    }
}
