//! The trace as a file for Perfetto: the test parses it and checks the trace-event format.

use std::collections::BTreeMap;

use crate::actors::{Gate, PLACEMENTS, counter, until};
use selvedge::Event;
use selvedge::prelude::*;
use serde_json::Value;

fn events(json: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(json).unwrap();
    file["traceEvents"].as_array().unwrap().clone()
}

fn of<'a>(events: &'a [Value], phase: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["ph"] == phase).collect()
}

fn time(event: &Value) -> f64 {
    event["ts"].as_f64().unwrap()
}

#[test]
fn graph_09_a_bind_counts_among_those_of_its_actor_in_this_graph_alone() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let (a, b) = (
            counter(&runtime, "a", placement),
            counter(&runtime, "b", placement),
        );
        // The second graph binds actors that were bound before, and its plan equals the plan of the first graph.
        let plans = [(); 2].map(|()| {
            let graph = runtime.compile_with(Options::new().trace(64), |x: Edge<i64>| {
                let (one, two) = (a.echo(&x), b.echo(&x));
                a.add(&one, &two)
            });
            let graph = graph.expect("it is right");
            graph.run(1).expect("a value");
            let trace = graph.trace();
            let computes = trace.iter().filter(|event| event.operation == "COMPUTE");
            let mut binds: Vec<_> = computes
                .map(|event| (event.task_id.0, event.bind_index.0))
                .collect();
            binds.sort_unstable();
            assert_eq!(binds, [(0, 0), (1, 0), (2, 1)], "{placement}");
            graph.plan().clone()
        });
        assert_eq!(plans[0], plans[1], "{placement}");
    }
    Ok(())
}

#[test]
fn task_15_the_trace_file_has_an_event_for_every_operation_and_an_arrow_for_every_edge() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        // A name that JSON has to escape.
        let (a, b) = (
            counter(&runtime, "a \"quoted\"", placement),
            counter(&runtime, "b", placement),
        );
        let options = Options::new().trace(256).named("traced");
        let graph = runtime.compile_with(options, |x: Edge<i64>| {
            let doubled = a.echo(&x);
            b.add(&doubled, &a.echo(&doubled))
        })?;
        for x in 0..4 {
            graph.execute(x).wait()?;
        }
        let events = events(&graph.trace_json());
        for event in &events {
            assert!(event["pid"].is_u64() && event["tid"].is_u64(), "{event}");
            assert!(event["name"].is_string(), "{event}");
        }
        // Per execution: a READ for each of four edges, a COMPUTE and a WRITE for each of three tasks; four executions.
        let operations = of(&events, "X");
        assert_eq!(operations.len(), 4 * (4 + 3 + 3), "{placement}");
        for operation in &operations {
            assert!(time(operation) > 0.0 && operation["dur"].as_f64().unwrap() >= 0.0);
            assert!(
                operation["args"]["bound at"]
                    .as_str()
                    .unwrap()
                    .contains("trace.rs:")
            );
        }
        let named = |name: &str| operations.iter().any(|event| event["name"] == name);
        assert!(named("a \"quoted\".echo") && named("b.add"), "{operations:?}");
        // Each execution has three edges between tasks.
        let (from, to) = (of(&events, "s"), of(&events, "f"));
        assert_eq!((from.len(), to.len()), (12, 12), "{placement}");
        let ends: BTreeMap<u64, &Value> = to.iter().map(|end| (end["id"].as_u64().unwrap(), *end)).collect();
        for start in from {
            let end = ends[&start["id"].as_u64().unwrap()];
            assert_eq!((&start["name"], &start["cat"]), (&end["name"], &end["cat"]));
            assert!(time(start) <= time(end), "{placement}: {start} {end}");
            assert_eq!(end["bp"], "e");
        }
        let names: Vec<&str> = of(&events, "M")
            .iter()
            .map(|event| event["args"]["name"].as_str().unwrap())
            .collect();
        assert!(
            names
                .iter()
                .any(|name| name.starts_with("lane ") && name.contains("a \"quoted\""))
        );
        assert!(
            placement != Placement::Inline || names.contains(&"traced (driver)"),
            "{names:?}"
        );
    }
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Inline);
    let silent = runtime.compile(|x: Edge<i64>| a.echo(&x))?;
    silent.execute(1).wait()?;
    assert!(
        of(&events(&silent.trace_json()), "X").is_empty(),
        "nothing was asked for"
    );
    Ok(())
}

#[test]
fn a_picture_of_a_trace_has_a_box_for_every_computation_of_the_last_executions() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let (a, b) = (
            counter(&runtime, "a <b>", placement),
            counter(&runtime, "c", placement),
        );
        let options = Options::new().trace(256).named("drawn");
        let graph = runtime.compile_with(options, |x: Edge<i64>| b.add(&a.echo(&x), &a.echo(&x)))?;
        for x in 0..5 {
            graph.execute(x).wait()?;
        }
        let boxes = |svg: &str| svg.matches("<title>COMPUTE of ").count();
        let svg = graph.trace_svg(2);
        assert_eq!(boxes(&svg), 2 * 3, "{placement}: {svg}");
        assert!(svg.contains("<title>COMPUTE of c.add, execution 4: "), "{svg}");
        assert!(svg.contains("COMPUTE of a &lt;b&gt;.echo, execution 3: ") && !svg.contains("<b>"));
        assert!(!svg.contains("execution 2:"), "{svg}");
        assert_eq!(boxes(&graph.trace_svg(usize::MAX)), 5 * 3);
        let none = graph.trace_svg(0);
        assert!(boxes(&none) == 0 && none.contains("0 executions"), "{none}");
        // Two values per execution cross lanes if the actors have lanes of their own.
        let apart = if placement == Placement::Inline { 0 } else { 2 * 2 };
        assert_eq!(svg.matches("marker-end").count(), apart, "{placement}: {svg}");
    }
    let runtime = Runtime::new();
    let silent = counter(&runtime, "a", Placement::Inline);
    let silent = runtime.compile(|x: Edge<i64>| silent.echo(&x))?;
    assert_eq!(
        silent.trace_svg(0).matches("<title>").count(),
        0,
        "nothing was asked for"
    );
    Ok(())
}

#[test]
fn task_15_a_write_that_waits_for_room_is_one_event_that_begins_where_its_compute_ended() -> Result<()> {
    for placement in [Placement::Thread, Placement::Process] {
        let runtime = Runtime::new();
        let (a, b) = (
            counter(&runtime, "a", placement),
            counter(&runtime, "b", placement),
        );
        let gate = Gate::closed();
        let options = Options::new().trace(256).max_inflight(4).slots(1);
        let graph = runtime.compile_with(options, |x: Edge<i64>| b.pass(&a.echo(&x), gate.path()))?;
        let under_way: Vec<_> = (0..3).map(|x| graph.execute(x)).collect();
        let of_a = || -> (Vec<Event>, Vec<Event>) {
            let events = graph.trace().into_iter();
            let events = events.filter(|event| event.task == "a.echo" && event.operation != "READ");
            events.partition(|event| event.operation == "COMPUTE")
        };
        // The gate blocks `b`, so `a` reaches a COMPUTE whose result has no free slot.
        until("a result has no room", || {
            let (mut computes, writes) = of_a();
            computes.retain(|compute| !compute.under_way);
            (computes.len() > 1 && computes.len() > writes.len()).then_some(())
        });
        gate.open();
        for execution in under_way {
            execution.wait()?;
        }
        let (computes, writes) = of_a();
        let numbers = |events: &[Event]| events.iter().map(|event| event.execution).collect::<Vec<_>>();
        assert_eq!(numbers(&computes), [0, 1, 2], "{placement}");
        assert_eq!(numbers(&writes), [0, 1, 2], "{placement}");
        for (compute, write) in computes.iter().zip(&writes) {
            assert_eq!(compute.end_ns, write.start_ns, "{placement}");
        }
        assert!(
            writes.iter().any(|write| write.end_ns > write.start_ns),
            "{writes:?}"
        );
    }
    Ok(())
}

/// The number of times that the thread of this name has gone to sleep; `None` if it does not sleep now.
fn slept(name: &str) -> Option<u64> {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let status = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("status")).ok();
    let found = threads
        .filter_map(status)
        .find(|status| status.starts_with(&format!("Name:\t{name}\n")))?;
    let field = |key: &str| found.lines().find_map(|line| line.strip_prefix(key));
    field("State:\tS")?;
    field("voluntary_ctxt_switches:\t")?.parse().ok()
}

#[test]
fn task_15_what_is_under_way_is_seen_and_a_lane_that_slept_did_not_compute_meanwhile() -> Result<()> {
    let runtime = Runtime::new();
    let keeper = counter(&runtime, "keeper", Placement::Inline);
    let sleeper = counter(&runtime, "sleeper", Placement::Thread);
    let gate = Gate::closed();
    let bind = |x: Edge<i64>| sleeper.add(&x, &keeper.pass(&x, gate.path()));
    let graph = runtime.compile_with(Options::new().trace(64), bind)?;
    let idle = until("it waits for its first input", || slept("lane sleeper"));
    let opened = std::thread::scope(|scope| -> Result<u64> {
        let run = scope.spawn(|| graph.run(1));
        let under_way = |event: &Event| event.task == "keeper.pass" && event.under_way;
        until("the gate keeps it", || graph.trace().into_iter().find(under_way));
        // One of its inputs has arrived; it spins for the other, then sleeps.
        until("it sleeps again", || {
            slept("lane sleeper").filter(|slept| *slept > idle)
        });
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        gate.open();
        assert_eq!(run.join().unwrap()?, 2);
        Ok(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
    })?;
    let events = graph.trace();
    assert!(events.iter().all(|event| !event.under_way), "{events:?}");
    let computes = |event: &&Event| event.task == "sleeper.add" && event.operation == "COMPUTE";
    let found = events.iter().find(computes).unwrap();
    assert!(found.start_ns >= opened, "{opened} {found:?}");
    Ok(())
}
