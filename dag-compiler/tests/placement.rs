//! The choice of channels by placement.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may panic"
)]

mod text;

use proptest::prelude::*;
use selvedge_compiler::ir::{ChannelKind, ChannelPlan, GraphIr, LaneValue, Plan, Writer};
use selvedge_compiler::plan::compile::plan;
use selvedge_compiler::prove::{Refutation, prove};
use selvedge_core::{Address, HostId, LaneId, ProcessId};
use text::{graph, settings};

fn planned(text: &str) -> Plan {
    plan(graph(text), settings(3)).unwrap()
}

/// The channels of the value `value`, as `kind readers`.
fn channels(plan: &Plan, value: &str) -> Vec<String> {
    let mine = plan
        .channels
        .iter()
        .filter(|channel| plan.ir.value_name(channel.value) == value);
    mine.map(|channel| {
        let readers: Vec<u32> = channel.readers.iter().map(|reader| reader.lane.0).collect();
        format!("{:?} {readers:?}", channel.kind)
    })
    .collect()
}

fn reads(plan: &Plan, lane: u32, value: &str) -> LaneValue {
    let program = plan
        .lanes
        .iter()
        .find(|program| program.address.lane == LaneId(lane))
        .unwrap();
    *program
        .values
        .iter()
        .find(|it| plan.ir.value_name(it.value) == value)
        .unwrap()
}

/// The plan of a graph whose actors `d` and those after it are on hosts, by number.
fn over_hosts(text: &str, hosts: &[u32]) -> Plan {
    let mut graph = graph(text);
    let first = graph.actors.len() - hosts.len();
    for (actor, host) in graph.actors[first..].iter_mut().zip(hosts) {
        actor.home.host = HostId(*host);
    }
    plan(graph, settings(3)).unwrap()
}

#[test]
fn chan_10_the_readers_on_each_other_host_share_a_mirror() {
    let plan = over_hosts(
        "actor a on 1\nactor b on 2@1\nactor c on 3@2\nactor d on 4@3\nactor e on 5@4\ninput x\n\
         u = a.f(x)\nv = b.f(u)\nw = c.f(u)\ny = d.f(u)\nz = e.f(u)\nreturn v, w, y, z",
        &[1, 1, 2],
    );
    assert_eq!(
        channels(&plan, "a.f"),
        ["Shared [2]", "Mirror [3, 4]", "Mirror [5]"]
    );
    assert_eq!(channels(&plan, "c.f"), ["Shared []", "Mirror [0]"]);
    let shuttles: Vec<_> = plan
        .shuttles()
        .iter()
        .map(|it| (it.from.0, it.to.0, it.reader))
        .collect();
    assert_eq!(
        shuttles[..2],
        [(1, 3, 1), (1, 5, 2)],
        "after the reader on the writer's host"
    );
    let joints: Vec<_> = plan
        .joints()
        .iter()
        .map(|(host, process)| (host.0, process.0))
        .collect();
    assert_eq!(
        joints,
        [(0, 1), (1, 3), (1, 4), (2, 5)],
        "process 2 has no edge to another host"
    );
    assert_eq!(plan.steward(HostId(1)), ProcessId(3));
}

#[test]
fn chan_10_a_plan_with_a_mirror_that_nobody_feeds_is_refused() {
    let text = "actor a on 1\nactor d on 2@1\ninput x\nu = a.f(x)\nv = d.f(u)\nreturn v";
    let good = over_hosts(text, &[1]);
    let refused = |change: &dyn Fn(&mut ChannelPlan)| {
        let mut plan = good.clone();
        plan.channels.iter_mut().for_each(change);
        matches!(prove(&plan), Err(Refutation::Malformed(_)))
    };
    assert!(!refused(&|_| {}));
    assert!(refused(&|channel| channel.mirrors = 0));
    assert!(refused(&|channel| channel.mirrors *= 2));
    assert!(refused(&|channel| {
        if channel.kind == ChannelKind::Mirror {
            channel.kind = ChannelKind::Shared;
        }
    }));
}

#[test]
fn comp_06_channel_kind_follows_placement() {
    let plan = planned(
        "actor a on 1\nactor b on 1\nactor c on 2\nactor d on 3@1\ninput x\n\
         u = a.f(x)\nv = b.f(u)\nw = c.f(v)\nz = d.f(w)\nreturn z",
    );
    assert_eq!(channels(&plan, "input 0"), ["Ring [1]"]);
    assert_eq!(channels(&plan, "a.f"), ["Local [1]"]);
    assert_eq!(channels(&plan, "b.f"), ["Ring [2]"]);
    assert_eq!(channels(&plan, "c.f"), ["Shared [3]"]);
    assert_eq!(channels(&plan, "d.f"), ["Shared [0]"]);
}

#[test]
fn comp_01_readers_are_grouped_by_where_they_live() {
    let plan = planned(
        "actor a on 1\nactor b on 2\nactor c on 3@1\nactor d on 4@2\ninput x\n\
         u = a.f(x)\nv = a.g(u)\nw = b.g(u)\ny = c.g(u)\nz = d.g(u)\nreturn v, w, y, z, u",
    );
    // The writer's own lane also reads through the ring, because other lanes of its process do.
    assert_eq!(channels(&plan, "a.f"), ["Ring [0, 1, 2]", "Shared [3, 4]"]);
    let readers: Vec<u16> = [0, 1, 2, 3, 4]
        .map(|lane| reads(&plan, lane, "a.f").reader)
        .into();
    assert_eq!(readers, [0, 1, 2, 0, 1], "each reader's place in its own channel");
}

#[test]
fn comp_02_a_local_value_and_readers_elsewhere_are_two_routes() {
    let plan =
        planned("actor a on 1@1\nactor b on 2@2\ninput x\nu = a.f(x)\nv = a.g(u)\nw = b.g(u)\nreturn v, w");
    assert_eq!(channels(&plan, "a.f"), ["Local [1]", "Shared [2]"]);
}

#[test]
fn comp_06_inputs_are_written_by_whoever_executes() {
    let plan = planned(
        "actor a on 0\nactor b on 1\nactor c on 2@1\ninput x\nu = a.f(x)\nv = b.f(x)\nw = c.f(x)\nreturn u, v, w",
    );
    assert_eq!(channels(&plan, "input 0"), ["Ring [0, 1]", "Shared [2]"]);
    let input: Vec<&ChannelPlan> = plan
        .channels
        .iter()
        .filter(|channel| channel.writer == Writer::Submit)
        .collect();
    assert_eq!(input.len(), 2);
    assert!(
        input
            .iter()
            .all(|channel| channel.writer.address() == Address::DRIVER)
    );
    // The result of an inline task that only the driver reads needs no ring.
    assert_eq!(channels(&plan, "a.f"), ["Local [0]"]);
}

#[test]
fn dag_29_an_input_passed_straight_through_is_a_ring_to_the_driver() {
    let plan = planned("actor a on 1@1\ninput x\nu = a.f(x)\nreturn x, u");
    assert_eq!(channels(&plan, "input 0"), ["Ring [0]", "Shared [1]"]);
}

#[test]
fn cache_01_a_lane_has_one_end_per_value_and_counts_its_reads() {
    let plan = planned(
        "actor a on 1\nactor b on 2\nactor c on 2\ninput x\nu = a.f(x)\nv = b.g(u, u)\nw = c.g(u, v)\nreturn w",
    );
    assert_eq!(channels(&plan, "a.f"), ["Ring [2]"]);
    assert_eq!(reads(&plan, 2, "a.f").reads, 3);
}

#[test]
fn dag_53_outputs_count_as_reads_of_the_driver() {
    let plan = planned("actor a on 1\nactor d on 0\ninput x\nu = a.f(x)\nv = d.g(u)\nreturn u, v, u");
    assert_eq!(reads(&plan, 0, "a.f").reads, 3, "two outputs and one inline task");
    assert_eq!(reads(&plan, 0, "d.g").reads, 1);
}

#[test]
fn dag_10_every_part_has_a_channel_and_an_unread_whole_has_none() {
    let plan = planned("actor a on 1\nactor b on 2\ninput x\np q = a.pair(x)\nu = b.f(p)\nreturn u, q");
    assert_eq!(channels(&plan, "a.pair.0"), ["Ring [2]"]);
    assert_eq!(channels(&plan, "a.pair.1"), ["Ring [0]"]);
    assert!(channels(&plan, "a.pair").is_empty());
}

#[test]
fn buf_07_rings_have_a_slot_for_every_execution_in_flight() {
    let plan = planned(
        "actor a on 1\nactor b on 1\nactor c on 2@1\ninput x\nu = a.f(x)\nv = b.f(u)\nw = c.f(v)\nreturn w",
    );
    for channel in &plan.channels {
        let expected = if channel.kind == ChannelKind::Local { 1 } else { 3 };
        assert_eq!(channel.slots, expected, "{channel:?}");
    }
}

#[test]
fn chan_19_memory_is_counted_before_it_is_allocated() {
    let memory =
        planned("actor a on 1@1\nactor b on 2@1\ninput x\nu = a.f(x)\nv = b.f(u)\nreturn v").memory();
    // The input and the output cross processes; the hop between the two actors does not.
    assert_eq!(memory.shared_channels, 2);
    assert_eq!(
        memory.channels.iter().filter(|it| it.shared_bytes == 0).count(),
        1
    );
    // Three slots of 1000 bytes, rounded up to cache lines, with a header each; a control line and one tail. Header,
    // control and tail take two cache lines each.
    assert_eq!(memory.shared_bytes, 2 * (3 * (1024 + 128) + 2 * 128));
    assert_eq!(memory.shared_bytes_max, 2 * (3 * ((1 << 20) + 128) + 2 * 128));
}

/// The kinds of channels that the text of COMP-06 requires for a value, computed independently.
fn expected_kinds(graph: &GraphIr, value: usize) -> (bool, bool, bool) {
    use selvedge_compiler::ir::{Origin, ValueId};
    let place = |actor: selvedge_core::ActorId| {
        let actor = graph.actors.iter().find(|it| it.id == actor).unwrap();
        (actor.home.process, actor.lane)
    };
    let value_id = ValueId(value as u32);
    let writer = match graph.values[value].origin {
        Origin::Input(_) => (ProcessId::DRIVER, None),
        Origin::Task(task) => {
            let (process, lane) = place(graph.tasks[task.0 as usize].actor);
            (process, Some(lane))
        }
    };
    let mut readers: Vec<(ProcessId, LaneId)> = Vec::new();
    for task in &graph.tasks {
        if GraphIr::reads(task).any(|(_, read)| read == value_id) {
            readers.push(place(task.actor));
        }
    }
    if graph.outputs.contains(&value_id) {
        readers.push((ProcessId::DRIVER, LaneId(0)));
    }
    let far = readers.iter().any(|(process, _)| *process != writer.0);
    let other_lane = readers
        .iter()
        .any(|(process, lane)| *process == writer.0 && Some(*lane) != writer.1);
    let own_lane = readers
        .iter()
        .any(|(process, lane)| *process == writer.0 && Some(*lane) == writer.1);
    (own_lane && !other_lane, other_lane, far)
}

proptest! {
    #[test]
    fn comp_06_every_value_of_every_graph_has_the_channels_its_readers_need(
        actors in prop::collection::vec((0u32..6, Just(0u32)), 1..6),
        tasks in prop::collection::vec((any::<usize>(), prop::collection::vec(any::<usize>(), 1..4)), 1..25),
    ) {
        let graph = text::from_numbers(&(actors, tasks));
        let plan = plan(graph.clone(), settings(2)).unwrap();
        for value in 0..graph.values.len() {
            let has = |kind| plan.channels.iter().any(|it| it.value.0 as usize == value && it.kind == kind);
            let found = (has(ChannelKind::Local), has(ChannelKind::Ring), has(ChannelKind::Shared));
            prop_assert_eq!(found, expected_kinds(&graph, value));
        }
    }
}
