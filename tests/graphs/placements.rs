//! Placements of actors: lanes and workers, shared or not, and their visible effects.

use crate::actors::{self, Counter, PLACEMENTS, counter};
use selvedge::prelude::*;
use selvedge::{Slots, Transport};
use selvedge_compiler::ir::ChannelKind;

#[test]
fn comp_06_several_actors_share_a_lane() -> Result<()> {
    let runtime = Runtime::new();
    let lane = runtime.lane("shared");
    let a = runtime.spawn::<Counter>("a", (0,)).in_lane(&lane)?;
    let b = runtime.spawn::<Counter>("b", (0,)).in_lane(&lane)?;
    assert_eq!(a.actor().lane(), b.actor().lane());
    let graph = runtime.compile(|x: Edge<i64>| a.scale(&b.scale(&a.scale(&x, 2), 3), 5))?;
    for x in 0..20 {
        assert_eq!(graph.execute(x).wait()?, 30 * x);
    }
    // Within a lane, only the graph's input and output cross a channel.
    let text = graph.describe();
    assert!(text.contains("local"), "{text}");
    Ok(())
}

#[test]
fn comp_06_several_actors_share_a_worker_and_a_lane_in_it() -> Result<()> {
    let runtime = Runtime::new();
    let worker = runtime.worker("w")?;
    let lane = worker.lane("l");
    let a = runtime.spawn::<Counter>("a", (0,)).in_lane(&lane)?;
    let b = runtime.spawn::<Counter>("b", (0,)).in_lane(&lane)?;
    let c = runtime.spawn::<Counter>("c", (0,)).in_worker(&worker)?;
    let d = counter(&runtime, "d", Placement::Process);
    assert_eq!(a.actor().pid(), c.actor().pid());
    assert_ne!(a.actor().pid(), d.actor().pid());
    assert_ne!(a.actor().lane(), c.actor().lane());
    let graph = runtime.compile(|x: Edge<i64>| {
        let y = a.scale(&x, 2);
        let (z, w) = (b.scale(&y, 3), c.scale(&y, 5));
        (d.sum3(&y, &z, &w), w)
    })?;
    for x in 0..50 {
        assert_eq!(graph.execute(x).wait()?, (18 * x, 10 * x));
    }
    Ok(())
}

#[test]
fn comp_01_one_writer_serves_readers_of_every_kind() -> Result<()> {
    let runtime = Runtime::new();
    let worker = runtime.worker("w")?;
    let writer = runtime.spawn::<Counter>("writer", (0,)).in_worker(&worker)?;
    let same_process = runtime
        .spawn::<Counter>("same-process", (0,))
        .in_worker(&worker)?;
    let other = counter(&runtime, "other", Placement::Process);
    let driver_thread = counter(&runtime, "driver-thread", Placement::Thread);
    let inline = counter(&runtime, "inline", Placement::Inline);
    let graph = runtime.compile(|x: Edge<i64>| {
        let y = writer.scale(&x, 2);
        let own = writer.scale(&y, 3);
        (
            own,
            same_process.scale(&y, 5),
            other.scale(&y, 7),
            driver_thread.scale(&y, 11),
            inline.scale(&y, 13),
            y,
        )
    })?;
    for x in 0..50 {
        assert_eq!(
            graph.execute(x).wait()?,
            (6 * x, 10 * x, 14 * x, 22 * x, 26 * x, 2 * x)
        );
    }
    Ok(())
}

#[test]
fn dag_46_any_thread_may_drive_a_graph() -> Result<()> {
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Process);
    let graph = runtime.compile(|x: Edge<i64>| a.scale(&x, 2))?;
    let sum = std::thread::scope(|scope| {
        scope
            .spawn(|| graph.map(0..10).map(|result| result.expect("value")).sum::<i64>())
            .join()
            .expect("no panic")
    });
    assert_eq!(sum, 90);
    Ok(())
}

/// An actor that drives a graph of its own, in any process.
struct Boss {
    graph: Graph<i64, i64>,
    _runtime: Runtime,
}

#[actor]
impl Boss {
    pub fn new(placement: Placement) -> Result<Self> {
        let runtime = Runtime::new();
        let (a, b) = (
            counter(&runtime, "a", placement),
            counter(&runtime, "b", placement),
        );
        let graph = runtime.compile(|x: Edge<i64>| b.scale(&a.scale(&x, 2), 3))?;
        Ok(Boss {
            graph,
            _runtime: runtime,
        })
    }

    pub fn run(&mut self, x: i64) -> Result<i64> {
        Ok(self.graph.execute(x).wait()?)
    }
}

#[test]
fn dag_46_an_actor_in_a_worker_drives_a_graph_of_its_own_workers() -> Result<()> {
    for placement in actors::PLACEMENTS {
        for inner in actors::PLACEMENTS {
            let runtime = Runtime::new();
            let boss = runtime.spawn::<Boss>("boss", (inner,)).place(placement)?;
            let graph = runtime.compile(|x: Edge<i64>| boss.run(&x))?;
            for x in 0..5 {
                assert_eq!(graph.execute(x).wait()?, 6 * x, "{inner} in {placement}");
            }
        }
    }
    Ok(())
}

#[test]
fn task_15_the_trace_has_three_events_for_a_task_with_all_fields() -> Result<()> {
    for placement in actors::PLACEMENTS {
        let runtime = Runtime::new();
        let (a, b) = (
            counter(&runtime, "a", placement),
            counter(&runtime, "b", placement),
        );
        let one = runtime.compile_with(Options::new().trace(64), |x: Edge<i64>| a.echo(&x))?;
        one.execute(1).wait()?;
        let events = one.trace();
        assert_eq!(events.len(), 3, "{placement}: {events:?}");
        let operations: Vec<&str> = events.iter().map(|event| event.operation.as_str()).collect();
        assert_eq!(operations, ["READ", "COMPUTE", "WRITE"]);
        for event in &events {
            assert_eq!(
                (event.actor.as_str(), event.method.as_str(), event.task.as_str()),
                ("a", "echo", "a.echo")
            );
            assert!(event.execution == 0 && event.start_ns <= event.end_ns && event.start_ns > 0);
        }
        drop(one);
        let two = runtime.compile_with(Options::new().trace(64), |x: Edge<i64>| b.echo(&a.echo(&x)))?;
        two.execute(1).wait()?;
        assert_eq!(two.trace().len(), 6, "{placement}");
        drop(two);
        let twice = runtime.compile_with(Options::new().trace(64), |x: Edge<i64>| a.echo(&a.echo(&x)))?;
        twice.execute(1).wait()?;
        let events = twice.trace().into_iter();
        let computes = events.filter(|event| event.operation == "COMPUTE");
        let places: Vec<(u32, u32)> = computes.map(|it| (it.bind_index.0, it.task_id.0)).collect();
        assert_eq!(places, [(0, 0), (1, 1)], "{placement}");
        drop(twice);
        let off = runtime.compile(|x: Edge<i64>| a.echo(&x))?;
        off.execute(1).wait()?;
        assert!(off.trace().is_empty());
    }
    Ok(())
}

#[test]
fn type_02_an_edge_may_have_slots_and_a_buffer_of_its_own() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let (a, b) = (
            counter(&runtime, "a", placement),
            counter(&runtime, "b", placement),
        );
        for slots in [Slots::Fixed(3), Slots::Auto] {
            let options = Options::new().slots(slots).max_inflight(4).buffer_bytes(2000);
            let graph = runtime.compile_with(options, |x: Edge<i64>| {
                let own = a.echo(&x).with_slots(9).with_buffer_bytes(5000);
                b.add(&own, &a.echo(&x))
            })?;
            let plan = graph.plan();
            let sent = plan.channels.iter().filter(|it| it.kind != ChannelKind::Local);
            for channel in sent {
                let own = plan.ir.value_name(channel.value) == "a.echo";
                assert_eq!(
                    channel.slots,
                    if own { 9 } else { plan.settings.slots },
                    "{placement}"
                );
                if channel.kind == ChannelKind::Shared {
                    assert_eq!(channel.slot_bytes, if own { 5000 } else { 2000 }, "{placement}");
                }
            }
            assert!(plan.settings.slots < 9, "{slots:?}");
            for (x, result) in (0..30).zip(graph.map(0..30)) {
                assert_eq!(result?, 2 * x, "{placement}");
            }
        }
        let refused = runtime.compile(|x: Edge<i64>| a.echo(&x).with_slots(0).with_buffer_bytes(10));
        let told = refused.expect_err("out of bounds").to_string();
        for what in [
            "error[D0108]",
            "`slots` is 0",
            "`buffer_bytes` is 10",
            "placements.rs",
        ] {
            assert!(told.contains(what), "{what} in {told}");
        }
    }
    Ok(())
}

#[test]
fn acc_16_a_rendezvous_on_one_lane_is_ignored_and_the_plan_says_so() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let (a, b) = (
            counter(&runtime, "a", placement),
            counter(&runtime, "b", placement),
        );
        let graph = runtime.compile(|x: Edge<i64>| {
            let [stays, goes] = [1, 2].map(|by| a.scale(&x, by).with_transport(Transport::Rendezvous));
            b.add(&goes, &a.echo(&stays))
        })?;
        let plan = graph.plan();
        let meets = |value: &str| {
            let values = plan.lanes.iter().flat_map(|lane| &lane.values);
            let mut meets = values
                .filter(|it| it.meets)
                .map(|it| plan.ir.value_name(it.value));
            meets.any(|name| name == value)
        };
        let inline = placement == Placement::Inline;
        assert!(!meets("a.scale") && meets("a.scale#2") != inline, "{placement}");
        let note = plan
            .notes
            .iter()
            .find(|note| note.contains("rendezvous was asked for"));
        let note = note.expect("a note");
        assert!(note.contains("is ignored on lane"), "{placement}: {note}");
        assert!(
            note.contains("a.scale") && note.contains("a.scale#2") == inline,
            "{placement}: {note}"
        );
        assert!(graph.describe().contains(note), "{placement}");
        assert_eq!(graph.run(5)?, 15, "{placement}");
    }
    Ok(())
}

#[test]
fn type_11_a_clone_of_an_edge_keeps_its_transport() -> Result<()> {
    let runtime = Runtime::new();
    let (a, b) = (
        counter(&runtime, "a", Placement::Thread),
        counter(&runtime, "b", Placement::Thread),
    );
    let graph = runtime.compile(|x: Edge<i64>| {
        let hinted = a.scale(&x, 2).with_transport(Transport::Rendezvous);
        b.echo(&hinted.clone())
    })?;
    let mut values = graph.plan().lanes.iter().flat_map(|lane| &lane.values);
    assert!(values.any(|value| value.meets), "{}", graph.describe());
    assert_eq!(graph.run(5)?, 10);
    Ok(())
}
