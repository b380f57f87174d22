//! The compiler's stages over graphs built by hand: no actors, no processes.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use proptest::prelude::*;
use selvedge_channels::Waiting;
use selvedge_compiler::compile::plan;
use selvedge_compiler::ir::*;
use selvedge_compiler::{Code, lower::lower, order::order, prove::prove};
use selvedge_core::{ActorId, LaneId, ProcessId};

/// A graph in small text: actors by (lane, process), tasks as "actor: inputs", outputs.
struct Sketch {
    graph: GraphIr,
}

fn here() -> SourceLocation {
    SourceLocation {
        file: "sketch".into(),
        line: 1,
        column: 1,
    }
}

impl Sketch {
    fn new(actors: &[(u32, u32)]) -> Self {
        let actor = |(index, (lane, process)): (usize, &(u32, u32))| ActorIr {
            id: ActorId(index as u32),
            name: format!("a{index}"),
            type_name: "T".into(),
            lane: LaneId(*lane),
            process: ProcessId(*process),
            placement: "thread".into(),
        };
        let input = ValueIr {
            origin: Origin::Input(0),
            part: None,
            type_name: "u8".into(),
        };
        Sketch {
            graph: GraphIr {
                name: "sketch".into(),
                actors: actors.iter().enumerate().map(actor).collect(),
                values: vec![input],
                inputs: vec![ValueId(0)],
                compiled_at: here(),
                ..GraphIr::default()
            },
        }
    }

    /// A task of `actor` over `inputs`; returns its result.
    fn task(&mut self, actor: u32, inputs: &[ValueId]) -> ValueId {
        let id = TaskId(self.graph.tasks.len() as u32);
        let bind_index = self
            .graph
            .tasks
            .iter()
            .filter(|task| task.actor == ActorId(actor))
            .count() as u32;
        self.graph.tasks.push(TaskIr {
            actor: ActorId(actor),
            method: 0,
            method_name: "f".into(),
            label: format!("a{actor}.f#{}", id.0),
            args: inputs.iter().map(|value| ArgIr::Value(*value)).collect(),
            bound_at: here(),
            bind_index,
        });
        let value = ValueId(self.graph.values.len() as u32);
        self.graph.values.push(ValueIr {
            origin: Origin::Task(id),
            part: None,
            type_name: "u8".into(),
        });
        value
    }

    fn out(mut self, outputs: &[ValueId]) -> GraphIr {
        self.graph.outputs = outputs.to_vec();
        self.graph
    }
}

const INPUT: ValueId = ValueId(0);

fn settings(slots: u32) -> Settings {
    Settings {
        max_inflight: slots,
        slots,
        slot_bytes: 1000,
        max_bytes: 1 << 20,
        waiting: Waiting::Park,
        trace_events: 0,
    }
}

fn schedule(plan: &Plan, lane: u32) -> String {
    let lane = plan.lanes.iter().find(|it| it.lane == LaneId(lane)).unwrap();
    let word = |operation: &Operation| match operation.kind {
        OpKind::Read { .. } => format!("{}R", operation.task.0),
        OpKind::Compute => format!("{}C", operation.task.0),
        OpKind::Write => format!("{}W", operation.task.0),
    };
    lane.steps.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn graph_01_a_task_is_a_read_per_edge_a_compute_and_a_write() {
    let mut sketch = Sketch::new(&[(1, 0), (2, 0)]);
    let a = sketch.task(0, &[INPUT]);
    let b = sketch.task(1, &[a, a, INPUT]);
    let lowered = lower(&sketch.out(&[b]));
    let kinds: Vec<_> = lowered
        .operations
        .iter()
        .map(|operation| operation.kind)
        .collect();
    use OpKind::{Compute, Read, Write};
    assert_eq!(
        kinds,
        [
            Read { arg: 0 },
            Compute,
            Write,
            Read { arg: 0 },
            Read { arg: 1 },
            Read { arg: 2 },
            Compute,
            Write
        ]
    );
    let edges = |kind| lowered.edges.iter().filter(|edge| edge.kind == kind).count();
    // Edge rules 1 and 3; the input has no operation (GRAPH-07).
    assert_eq!(
        (
            edges(EdgeKind::Program),
            edges(EdgeKind::Data),
            edges(EdgeKind::Control)
        ),
        (6, 2, 0)
    );
}

#[test]
fn graph_04_computes_of_one_actor_are_chained_in_bind_order() {
    let mut sketch = Sketch::new(&[(1, 0)]);
    let results: Vec<_> = (0..3).map(|_| sketch.task(0, &[INPUT])).collect();
    let lowered = lower(&sketch.out(&results));
    let control: Vec<_> = lowered
        .edges
        .iter()
        .filter(|edge| edge.kind == EdgeKind::Control)
        .collect();
    assert_eq!(control.len(), 2);
    for edge in control {
        let task = |index: u32| lowered.operations[index as usize].task.0;
        assert_eq!(task(edge.from) + 1, task(edge.to));
    }
}

#[test]
fn graph_16_without_accelerators_lanes_run_in_bind_order() {
    let mut sketch = Sketch::new(&[(1, 0), (2, 1)]);
    let a = sketch.task(0, &[INPUT]);
    let b = sketch.task(1, &[a]);
    let c = sketch.task(0, &[b]);
    let d = sketch.task(1, &[INPUT]);
    let plan = plan(sketch.out(&[c, d]), settings(2)).unwrap();
    assert_eq!(schedule(&plan, 1), "0R 0C 0W 2R 2C 2W");
    assert_eq!(schedule(&plan, 2), "1R 1C 1W 3R 3C 3W");
    assert_eq!(schedule(&plan, 0), "");
}

#[test]
fn graph_18_one_f_one_b() {
    // Two stages, two micro-batches, bound forward, forward, backward, backward per stage.
    let mut sketch = Sketch::new(&[(1, 1), (2, 2)]);
    let f: Vec<_> = (0..2).map(|_| sketch.task(0, &[INPUT])).collect();
    let b: Vec<_> = f.iter().map(|f| sketch.task(1, &[*f])).collect();
    let out: Vec<_> = b.iter().map(|b| sketch.task(0, &[*b])).collect();
    let plan = plan(sketch.out(&out), settings(2)).unwrap();
    assert_eq!(schedule(&plan, 1), "0R 0C 0W 1R 1C 1W 4R 4C 4W 5R 5C 5W");
    assert_eq!(schedule(&plan, 2), "2R 2C 2W 3R 3C 3W");
}

#[test]
fn comp_06_channel_kinds_follow_placement() {
    // Writer on lane 1 of process 1; readers: own lane, lane 2 of process 1, process 2, driver.
    let mut sketch = Sketch::new(&[(1, 1), (2, 1), (3, 2)]);
    let w = sketch.task(0, &[INPUT]);
    let readers: Vec<_> = [0, 1, 2]
        .into_iter()
        .map(|actor| sketch.task(actor, &[w]))
        .collect();
    let mut outputs = readers.clone();
    outputs.push(w);
    let plan = plan(sketch.out(&outputs), settings(3)).unwrap();
    let of = |value| {
        plan.channels
            .iter()
            .filter(move |channel| channel.value == value)
            .collect::<Vec<_>>()
    };
    // The input goes to a worker: one shared channel.
    assert_eq!(of(INPUT).len(), 1);
    assert_eq!(
        (of(INPUT)[0].kind, of(INPUT)[0].writer),
        (ChannelKind::Shared, Writer::Submit)
    );
    // One ring for the process's lanes, the writer's own among them; one shared channel for the rest.
    let [ring, shared] = of(w)[..] else {
        panic!("{:?}", of(w))
    };
    assert_eq!(
        (ring.kind, ring.readers.as_slice()),
        (ChannelKind::Ring, [LaneId(1), LaneId(2)].as_slice())
    );
    assert_eq!(
        (shared.kind, shared.readers.as_slice()),
        (ChannelKind::Shared, [LaneId(0), LaneId(3)].as_slice())
    );
    assert_eq!(ring.slots, 3, "BUF-07");
}

#[test]
fn comp_02_a_value_read_only_on_its_own_lane_is_local() {
    let mut sketch = Sketch::new(&[(1, 0), (1, 0)]);
    let a = sketch.task(0, &[INPUT]);
    let b = sketch.task(1, &[a, a]);
    let plan = plan(sketch.out(&[b]), settings(3)).unwrap();
    let local: Vec<_> = plan
        .channels
        .iter()
        .filter(|channel| channel.kind == ChannelKind::Local)
        .collect();
    assert_eq!((local.len(), local[0].value), (1, a));
    let lane = plan.lanes.iter().find(|lane| lane.lane == LaneId(1)).unwrap();
    let read = lane.values.iter().find(|value| value.value == a).unwrap();
    assert_eq!(read.reads, 2, "CACHE-01: one slot, two reads");
}

#[test]
fn dag_11_readers_of_one_lane_share_one_end() {
    let mut sketch = Sketch::new(&[(1, 0), (2, 0)]);
    let a = sketch.task(0, &[INPUT]);
    let (b, c) = (sketch.task(1, &[a]), sketch.task(1, &[a]));
    let plan = plan(sketch.out(&[b, c]), settings(1)).unwrap();
    let channel = plan.channels.iter().find(|channel| channel.value == a).unwrap();
    assert_eq!(channel.readers, [LaneId(2)]);
}

fn codes(graph: GraphIr) -> Vec<Code> {
    plan(graph, settings(1))
        .unwrap_err()
        .diagnostics
        .iter()
        .map(|it| it.code)
        .collect()
}

#[test]
fn dag_20_every_mistake_is_reported_at_once() {
    let mut sketch = Sketch::new(&[(1, 0)]);
    let a = sketch.task(0, &[INPUT]);
    sketch.task(0, &[a]);
    sketch.task(0, &[a]);
    assert_eq!(codes(sketch.out(&[a])), [Code::Dangling, Code::Dangling]);
    let mut sketch = Sketch::new(&[(1, 0)]);
    let b = sketch.task(0, &[]);
    assert_eq!(codes(sketch.out(&[b])), [Code::UnusedInput, Code::NoInputEdge]);
    assert_eq!(
        codes(Sketch::new(&[]).out(&[])),
        [Code::UnusedInput, Code::NoOutput]
    );
}

/// Random graphs over random lanes and processes; every result is an output or read by a later task.
fn graphs() -> impl Strategy<Value = GraphIr> {
    let actors = proptest::collection::vec((1..4u32, 0..3u32), 1..5);
    let tasks = proptest::collection::vec(
        (any::<u32>(), proptest::collection::vec(any::<u32>(), 1..4)),
        1..12,
    );
    (actors, tasks, any::<u64>()).prop_map(|(actors, tasks, keep)| {
        // A lane lies in one process.
        let actors: Vec<_> = actors
            .into_iter()
            .map(|(lane, process)| (lane + 10 * process, process))
            .collect();
        let mut sketch = Sketch::new(&actors);
        let mut values = vec![INPUT];
        for (actor, inputs) in tasks {
            let inputs: Vec<_> = inputs
                .iter()
                .map(|input| values[*input as usize % values.len()])
                .collect();
            values.push(sketch.task(actor % actors.len() as u32, &inputs));
        }
        let read: Vec<_> = sketch
            .graph
            .tasks
            .iter()
            .flat_map(GraphIr::reads)
            .map(|(_, value)| value)
            .collect();
        let wanted = |(index, value): (usize, &ValueId)| {
            (!read.contains(value) || keep >> (index % 64) & 1 == 1).then_some(*value)
        };
        let outputs: Vec<_> = values.iter().enumerate().filter_map(wanted).collect();
        sketch.out(&outputs)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn graph_23_every_plan_is_live_with_any_number_of_slots(graph in graphs(), slots in 1..4u32) {
        let plan = plan(graph, settings(slots)).unwrap();
        let certificate = prove(&plan).unwrap();
        prop_assert!(certificate.executions > u64::from(certificate.slots), "more executions than slots");
        let steps: usize = plan.lanes.iter().map(|lane| lane.steps.len()).sum();
        prop_assert_eq!(certificate.operations, certificate.executions * steps as u64);
    }

    #[test]
    fn graph_13_the_order_respects_every_edge_and_has_every_operation_once(graph in graphs()) {
        let lowered = lower(&graph);
        let order = order(&lowered).unwrap();
        let mut place = vec![usize::MAX; lowered.operations.len()];
        for (position, operation) in order.iter().enumerate() {
            prop_assert_eq!(std::mem::replace(&mut place[*operation as usize], position), usize::MAX);
        }
        for edge in &lowered.edges {
            prop_assert!(place[edge.from as usize] < place[edge.to as usize]);
        }
    }

    #[test]
    fn graph_10_equal_graphs_give_equal_plans_byte_for_byte(graph in graphs()) {
        let bytes = |graph| postcard::to_allocvec(&plan(graph, settings(2)).unwrap()).unwrap();
        prop_assert_eq!(bytes(graph.clone()), bytes(graph));
    }

    #[test]
    fn graph_24_a_swapped_schedule_is_live_or_reported_with_its_cycle(graph in graphs(), lane: usize, at: usize) {
        let mut plan = plan(graph, settings(1)).unwrap();
        let lane = lane % plan.lanes.len();
        let steps = &mut plan.lanes[lane].steps;
        if steps.len() > 3 {
            let at = at % (steps.len() - 3);
            steps[at..].rotate_left(3);
        }
        if let Err(deadlock) = prove(&plan) {
            prop_assert!(!deadlock.cycle.is_empty());
            prop_assert!(deadlock.describe(&plan.ir).contains("needs lane"));
        }
    }
}

#[test]
fn graph_24_a_read_before_what_it_depends_on_is_a_deadlock_and_the_cycle_is_named() {
    // a: 0 then 2, b: 1 between them. Moving a's task 2 in front of its task 0 is the classical mistake (E-02).
    let mut sketch = Sketch::new(&[(1, 1), (2, 2)]);
    let a = sketch.task(0, &[INPUT]);
    let b = sketch.task(1, &[a]);
    let c = sketch.task(0, &[b]);
    let mut plan = plan(sketch.out(&[c]), settings(2)).unwrap();
    let lane = plan.lanes.iter_mut().find(|lane| lane.lane == LaneId(1)).unwrap();
    lane.steps.rotate_left(3);
    let deadlock = prove(&plan).unwrap_err();
    let mut lanes: Vec<_> = deadlock.cycle.iter().map(|blocked| blocked.lane.0).collect();
    lanes.sort_unstable();
    assert_eq!(lanes, [1, 2]);
    let text = deadlock.describe(&plan.ir);
    assert!(
        text.contains("lane 1 is at READ 0 of `a0.f#2` and needs lane 2 for `a1.f#1`"),
        "{text}"
    );
}

#[test]
fn graph_28_many_tasks_take_linear_steps() {
    // Steps are counted, not seconds: the checker runs every operation once per execution.
    for tasks in [10usize, 1000, 20_000] {
        let mut sketch = Sketch::new(&[(1, 0), (2, 1), (3, 2)]);
        let mut value = INPUT;
        for task in 0..tasks {
            value = sketch.task(task as u32 % 3, &[value]);
        }
        let plan = plan(sketch.out(&[value]), settings(2)).unwrap();
        let certificate = prove(&plan).unwrap();
        assert_eq!(certificate.operations, 3 * tasks as u64 * certificate.executions);
    }
}

#[test]
fn graph_27_a_plan_prints_as_text_and_as_dot() {
    let mut sketch = Sketch::new(&[(1, 0), (2, 1)]);
    let a = sketch.task(0, &[INPUT]);
    let b = sketch.task(1, &[a]);
    let plan = plan(sketch.out(&[b]), settings(2)).unwrap();
    let text = plan.describe();
    for part in [
        "a0.f#0(input 0)",
        "shared a0.f#0: lane 1 -> lane 2",
        "lane 2 (thread): READ 0 a1.f#1 · COMPUTE a1.f#1",
    ] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    let dot = plan.to_dot();
    for part in ["input -> t0", "t0 -> t1", "t1 -> output", "cluster_2"] {
        assert!(dot.contains(part), "{part:?} is missing in\n{dot}");
    }
}
