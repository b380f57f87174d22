use std::time::{Duration, Instant};

use linkme::distributed_slice;
use selvedge_channels::{PayloadType, Traits};
use selvedge_core::{
    ACTORS, Actor, ActorEntry, ActorRef, ActorState, Construction, ConstructorEntry, Failure, MethodEntry,
    ParamEntry, Runtime, Sharing,
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
    instance: None,
    id: std::any::TypeId::of::<Echo>(),
    place: "",
    is_pinned: || false,
    checkpoint: || None,
    constructors: &[ConstructorEntry {
        name: "new",
        error: || None,
        create: |_, _| Ok(ActorState::new(Echo)),
    }],
    concurrency: 1,
    methods: &[MethodEntry {
        name: "echo",
        params: &[ParamEntry {
            name: "x",
            payload: || PayloadType::of::<i64>(),
            lists: Vec::new,
        }],
        result: || PayloadType::of::<i64>(),
        parts: Vec::new,
        error: || None,
        sharing: Sharing::Exclusive,
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
    const NAME: &'static str = "selvedge_compiler::submit::Echo";

    fn entry() -> &'static ActorEntry {
        &ENTRY
    }

    fn construction((): ()) -> Construction<Self, ()> {
        Construction::new(0, (), &Traits::WIRE, |(), _| Ok(ActorState::new(Echo)))
    }

    fn into_actor_state(self) -> ActorState {
        ActorState::new(self)
    }

    fn handle(actor: ActorRef) -> ActorRef {
        actor
    }
}

/// Runs `x` as far as one use of the lock goes.
fn ran<In: 'static, Out>(graph: &Graph<In, Out>, x: In) -> Outcome<Out> {
    let mut ran = Outcome::Refused;
    graph.engine.run(&mut graph.value(x), graph.take, &mut ran);
    ran
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
        assert!(matches!(ran, Outcome::Done(Ok(found)) if found == x));
    }
    drop(graph);
    let tuple = |(x,): (Edge<i64>,)| bind(&echo, 0).arg(&x).finish::<i64>();
    let graph = runtime.compile_with(options.clone(), tuple).unwrap();
    let staged = ran(&graph, (7,));
    assert!(matches!(staged, Outcome::Done(Ok(7))));
    drop(graph);
    let straight = runtime.compile_with(options, |x: Edge<i64>| x).unwrap();
    let straight = ran(&straight, 8);
    assert!(matches!(straight, Outcome::Done(Ok(8))));
}

#[test]
fn who_has_not_does_not() {
    let runtime = Runtime::new();
    let echo = echo(&runtime, false);
    let one = |x: Edge<i64>| bind(&echo, 0).arg(&x).finish::<i64>();
    let graph = runtime.compile_with(Options::new().max_inflight(4), one).unwrap();
    let held = graph.execute(1);
    let refused = ran(&graph, 2);
    assert!(matches!(refused, Outcome::Refused));
    assert_eq!(held.wait().unwrap(), 1);
    drop(graph);
    let parks = Options::new().wait(Wait::Park);
    let graph = runtime.compile_with(parks, one).unwrap();
    let submitted = ran(&graph, 3);
    assert!(matches!(submitted, Outcome::Pending { number: 0, .. }));
}

#[test]
fn what_is_computed_here_does_not() {
    let runtime = Runtime::new();
    let echo = echo(&runtime, true);
    let graph = runtime
        .compile(|x: Edge<i64>| bind(&echo, 0).arg(&x).finish::<i64>())
        .unwrap();
    let refused = ran(&graph, 2);
    assert!(matches!(refused, Outcome::Refused));
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
            let limit = TimeLimit::new(Some(Duration::from_secs(120)), "");
            let all = |driver: &mut Driver| {
                (driver.books.finished() == ROUNDS && driver.held() == 0).then_some(Ok(()))
            };
            engine.wait_for(&limit, all).unwrap().unwrap();
        });
        for x in 0..ROUNDS {
            let held = graph.execute(x as i64);
            seen(|driver| driver.books.finished() == driver.books.submitted());
            let dropped = engine
                .drive_soon(|_| std::thread::scope(|scope| scope.spawn(move || drop(held)).join().is_ok()));
            assert!(dropped.unwrap());
            seen(|driver| driver.held() == 0);
        }
    });
}

#[test]
fn what_is_dropped_while_somebody_has_the_driver_is_closed_by_that_thread_if_nobody_waits() {
    let runtime = Runtime::new();
    let echo = echo(&runtime, false);
    let graph = runtime
        .compile(|x: Edge<i64>| bind(&echo, 0).arg(&x).finish::<i64>())
        .unwrap();
    let [held, kept] = [1, 2].map(|x| graph.execute(x));
    assert_eq!(kept.wait().unwrap(), 2);
    let dropped = graph
        .engine
        .drive_soon(|_| std::thread::scope(|scope| scope.spawn(move || drop(held)).join().is_ok()));
    assert!(dropped.unwrap());
    // This use of the driver looks at nothing itself.
    assert_eq!(graph.engine.drive_soon(|driver| driver.held()).unwrap(), 0);
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
