//! The prover: live plans pass, and others are refused with the cycle.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may panic"
)]

mod text;

use petgraph::algo::is_cyclic_directed;
use petgraph::graph::DiGraph;
use proptest::prelude::*;
use selvedge_compiler::ir::{
    ArgIr, ChannelId, CollectiveId, OpKind, Operation, Origin, Plan, Settings, TaskId, Writer,
};
use selvedge_compiler::plan::compile::plan;
use selvedge_compiler::prove::{Certificate, Deadlock, Moment, Refutation, prove};
use text::{graph, settings};

/// Two actors share lane 1; the second needs, through lane 2, the result of the first.
const THERE_AND_BACK: &str =
    "actor a on 1\nactor b on 1\nactor c on 2@1\ninput x\nu = a.f(x)\nv = c.g(u)\nw = b.h(v)\nreturn w";

fn deadlock(plan: &Plan) -> Deadlock {
    match prove(plan) {
        Err(Refutation::Deadlock(deadlock)) => deadlock,
        other => panic!("no deadlock but {other:?}"),
    }
}

fn malformed(plan: &Plan) -> String {
    match prove(plan) {
        Err(Refutation::Malformed(what)) => what,
        other => panic!("well-formed: {other:?}"),
    }
}

/// The operations of a lane, task by task.
fn blocks(steps: &[Operation]) -> Vec<Vec<Operation>> {
    steps
        .chunk_by(|one, next| one.task == next.task)
        .map(<[Operation]>::to_vec)
        .collect()
}

#[test]
fn graph_24_a_live_plan_has_a_certificate() {
    let plan = plan(graph(THERE_AND_BACK), settings(3)).unwrap();
    let certificate = prove(&plan).unwrap();
    assert_eq!(
        certificate.order.len(),
        9,
        "three operations of each of three tasks"
    );
    certificate.check(&plan).unwrap();
}

#[test]
fn graph_23_a_certificate_of_another_plan_is_refused() {
    let good = plan(graph(THERE_AND_BACK), settings(1)).unwrap();
    let order = prove(&good).unwrap().order;
    for one in 0..order.len() {
        for other in 0..one {
            let mut changed = order.clone();
            changed.swap(one, other);
            assert!(
                Certificate { order: changed }.check(&good).is_err(),
                "{other} and {one} exchanged"
            );
        }
    }
    let shorter = order[1..].to_vec();
    assert!(Certificate { order: shorter }.check(&good).is_err());
    let mut twice = order;
    twice.extend(twice.last().copied());
    assert!(Certificate { order: twice }.check(&good).is_err());
}

/// Moves one moment of a plan's certificate right behind another. Returns the reason why the check refuses it.
fn moved(text: &str, overlap: bool, what: Moment, behind: Moment) -> String {
    let settings = Settings {
        overlap,
        ..settings(1)
    };
    let plan = plan(graph(text), settings).unwrap();
    let mut order = prove(&plan).unwrap().order;
    order.retain(|moment| *moment != what);
    let place = order.iter().position(|moment| *moment == behind).unwrap();
    order.insert(place + 1, what);
    Certificate { order }.check(&plan).unwrap_err()
}

fn moment(task: u32, kind: OpKind) -> Moment {
    Moment::Step(Operation {
        task: TaskId(task),
        kind,
    })
}

#[test]
fn graph_23_a_certificate_whose_transfers_are_out_of_order_is_refused() {
    let read = OpKind::Read { arg: 0 };
    let (receive, write) = (moment(1, read), moment(0, OpKind::Write));
    let text =
        "actor a on 1\nactor b on 2\nactor c on 3\ninput x\nu = a.f(x)\nv = b.g(!u)\nw = c.h(x)\nreturn v, w";
    let early = "READ 0 of `b.g` stands before `a.f` is there";
    // The receive is posted before the transfer, and the transfer ends before the work.
    assert_eq!(moved(text, true, receive, write), early);
    assert_eq!(moved(text, true, write, moment(1, OpKind::Compute)), early);
    // The transfer is one moment: no step of a third lane may stand in between.
    assert_eq!(moved(text, false, moment(2, OpKind::Write), write), early);
    // Two receives are posted before either value arrives; a device runs them in their order.
    let text = "actor a on 1\nactor b on 2\nactor c on 3\ninput x\nu = a.f(x)\nv = b.f(x)\nw = c.g(!u, !v)\nreturn w";
    let turned = moved(text, true, write, moment(1, OpKind::Write));
    assert_eq!(turned, "the transfers of lane 3 do not run in their order");
}

#[test]
fn graph_23_a_certificate_whose_collective_is_not_one_moment_is_refused() {
    let text = "actor a on 1\nactor b on 2\nactor c on 3\ninput x\n\
                u = a.sum[0](x)\nv = b.sum[0](x)\nw = c.h(x)\nreturn u, v, w";
    let apart = "the parts of collective 0 are not there together";
    let over = Moment::Completion(CollectiveId(0));
    let part = |rank| moment(rank, OpKind::Collective);
    for rank in 0..2 {
        // The collective completes before a part has arrived; then a rank goes on before the completion.
        assert_eq!(moved(text, true, part(rank), over), apart);
        let early = moved(text, true, moment(rank, OpKind::Write), part(rank));
        assert_eq!(early, apart);
    }
    let plan = plan(graph(text), settings(1)).unwrap();
    let mut order = prove(&plan).unwrap().order;
    order.retain(|moment| *moment != over);
    let refused = Certificate { order }.check(&plan).unwrap_err();
    assert_eq!(refused, "a collective that never completes");
    let between = moved(text, false, moment(2, OpKind::Write), part(0));
    assert_eq!(between, apart);
}

#[test]
fn graph_24_a_deadlock_names_task_operation_lane_and_edge() {
    let mut plan = plan(graph(THERE_AND_BACK), settings(3)).unwrap();
    let mut tasks = blocks(&plan.lanes[1].steps);
    tasks.swap(0, 1);
    plan.lanes[1].steps = tasks.concat();
    let found = deadlock(&plan);
    assert_eq!(
        found.describe(&plan.ir),
        "lane 1 is at READ 0 of `b.h` and waits for lane 2 over `c.g`; \
         lane 2 is at READ 0 of `c.g` and waits for lane 1 over `a.f`"
    );
    assert_eq!(found.cycle[0].waits_for, Writer::Lane(plan.lanes[2].address));
}

#[test]
fn graph_22_a_read_moved_before_what_it_depends_on_is_found() {
    // Across lanes: the receive is posted before the send that it depends on.
    let mut across = plan(graph(THERE_AND_BACK), settings(10)).unwrap();
    let read = across.lanes[1]
        .steps
        .iter()
        .position(|step| step.task.0 == 2)
        .unwrap();
    across.lanes[1].steps[..=read].rotate_right(1);
    assert_eq!(deadlock(&across).cycle.len(), 2);
    // Within a lane: a local value is read before it is written, so the lane waits for itself.
    let mut local = plan(
        graph("actor a on 1\nactor b on 1\ninput x\nu = a.f(x)\nv = b.g(u)\nreturn v"),
        settings(1),
    )
    .unwrap();
    local.lanes[1].steps[..=3].rotate_right(1);
    let found = deadlock(&local);
    assert_eq!(found.cycle.len(), 1);
    assert_eq!(found.cycle[0].waits_for, found.cycle[0].party);
}

#[test]
fn graph_24_only_the_cycle_is_named_not_who_waits_for_it() {
    let text = "actor a on 1\nactor b on 1\nactor c on 2\nactor d on 3\ninput x\n\
                u = a.f(x)\nv = c.g(u)\nw = b.h(v)\nz = d.k(w)\nreturn z";
    let mut plan = plan(graph(text), settings(2)).unwrap();
    let mut tasks = blocks(&plan.lanes[1].steps);
    tasks.swap(0, 1);
    plan.lanes[1].steps = tasks.concat();
    let parties: Vec<Writer> = deadlock(&plan)
        .cycle
        .iter()
        .map(|blocked| blocked.party)
        .collect();
    assert_eq!(
        parties,
        [1, 2].map(|lane: usize| Writer::Lane(plan.lanes[lane].address))
    );
}

#[test]
fn task_04_programs_that_no_graph_lowers_to_are_refused() {
    let good = plan(graph(THERE_AND_BACK), settings(2)).unwrap();
    let change = |change: &dyn Fn(&mut Plan)| {
        let mut plan = good.clone();
        change(&mut plan);
        malformed(&plan)
    };
    assert!(change(&|plan| plan.lanes[1].steps.swap(0, 1)).contains("COMPUTE of `a.f` is out of place"));
    assert!(change(&|plan| plan.lanes[1].steps.swap(1, 2)).contains("WRITE of `a.f`"));
    let twice =
        |plan: &mut Plan, step: usize| plan.lanes[1].steps.insert(step + 1, good.lanes[1].steps[step]);
    assert!(change(&|plan| twice(plan, 0)).contains("READ 0 of `a.f`"));
    assert!(change(&|plan| twice(plan, 1)).contains("COMPUTE of `a.f`"));
    assert!(change(&|plan| twice(plan, 2)).contains("WRITE of `a.f`"));
    // If methods commute, no bind order tells the two steps apart.
    let commuting = |plan: &mut Plan| {
        plan.ir.actors[0].commutes = true;
        twice(plan, 1);
    };
    assert!(change(&commuting).contains("COMPUTE of `a.f`"));
    assert!(change(&|plan| _ = plan.lanes[1].steps.remove(0)).contains("COMPUTE of `a.f`"));
    assert!(change(&|plan| _ = plan.lanes[1].steps.remove(1)).contains("WRITE of `a.f`"));
    assert!(change(&|plan| plan.lanes[2].steps.truncate(2)).contains("no lane finishes `c.g`"));
    assert!(change(&|plan| plan.lanes[2].steps.extend(good.lanes[1].steps.clone())).contains("`a.f`"));
    assert!(change(&|plan| plan.lanes[1].values[0].reads = 2).contains("does not read `input 0` 2 times"));
    assert!(change(&|plan| plan.lanes[2].values.clear()).contains("does not reach it"));
    assert!(change(&|plan| plan.lanes[1].values[1].channel.0 = 0).contains("does not lead to lane 1"));
    assert!(change(&|plan| plan.channels[1].writer = Writer::Submit).contains("is not written where"));
    assert!(change(&|plan| plan.settings.slots = 0).contains("slots"));
    assert!(change(&|plan| drop(plan.lanes.remove(0))).contains("driver"));
}

/// A writer waits for every reader of its channel, and fills one channel of each kind for a value.
#[test]
fn task_04_channels_that_no_graph_is_placed_on_are_refused() {
    let good = plan(graph(THERE_AND_BACK), settings(2)).unwrap();
    let change = |change: &dyn Fn(&mut Plan)| {
        let mut plan = good.clone();
        change(&mut plan);
        malformed(&plan)
    };
    let idle = |plan: &mut Plan| {
        let reader = plan.lanes[2].address;
        plan.channels[0].readers.push(reader);
    };
    assert!(change(&idle).contains("`input 0` has a reader that does not read from it"));
    // The lane reads from the second channel, and the writer fills one of them.
    let second = |plan: &mut Plan| {
        let mut other = plan.channels[0].clone();
        other.id = ChannelId(plan.channels.len() as u32);
        plan.lanes[1].values[0].channel = other.id;
        plan.channels[0].readers.clear();
        plan.channels.push(other);
    };
    assert!(change(&second).contains("the second of its kind for `input 0`"));
    let mirrored = |plan: &mut Plan| {
        plan.channels[0].mirrors = 1;
    };
    assert!(change(&mirrored).contains("channel 0 has mirrors, and is not shared"));
    let halves = |plan: &mut Plan| {
        let mut half = plan.lanes[1].clone();
        half.values.clear();
        half.steps = plan.lanes[1].steps.split_off(3);
        plan.lanes.push(half);
    };
    assert!(change(&halves).contains("lane 1 has two programs"));
}

#[test]
fn graph_04_methods_of_one_actor_out_of_bind_order_are_refused() {
    let mut plan = plan(
        graph("actor a on 1\ninput x\nu = a.f(x)\nv = a.g(x)\nreturn u, v"),
        settings(2),
    )
    .unwrap();
    plan.lanes[1].steps.rotate_left(3);
    assert!(malformed(&plan).contains("COMPUTE of `a.f` is out of place"));
}

/// Whether one execution has a cycle as a graph of lanes in order, and of edges from each WRITE to the READs of its
/// value. Without a cycle the plan is live for any number of slots; with one it is not (`LIVE-2`).
fn has_cycle(plan: &Plan) -> bool {
    let mut graph = DiGraph::<(), ()>::new();
    let mut nodes = std::collections::BTreeMap::new();
    for lane in &plan.lanes {
        let mut last = None;
        for step in &lane.steps {
            let node = *nodes.entry(*step).or_insert_with(|| graph.add_node(()));
            if let Some(last) = last.replace(node) {
                graph.add_edge(last, node, ());
            }
        }
    }
    for (step, node) in &nodes {
        let OpKind::Read { arg } = step.kind else { continue };
        let ArgIr::Value(value) = plan.ir.tasks[step.task.0 as usize].args[arg as usize] else {
            continue;
        };
        if let Origin::Task(task) = plan.ir.values[value.0 as usize].origin {
            graph.add_edge(
                nodes[&Operation {
                    task,
                    kind: OpKind::Write,
                }],
                *node,
                (),
            );
        }
    }
    is_cyclic_directed(&graph)
}

/// Moves tasks past each other and READs forward, if the programs stay well-formed.
fn shuffle(plan: &mut Plan, moves: &[(usize, usize, bool)]) {
    for (lane, place, hoist) in moves {
        let mut changed = plan.clone();
        let lanes = changed.lanes.len();
        let steps = &mut changed.lanes[lane % lanes].steps;
        if steps.len() < 2 {
            continue;
        }
        if *hoist {
            let to = place % (steps.len() - 1);
            steps.swap(to, to + 1);
        } else {
            let mut tasks = blocks(steps);
            if tasks.len() < 2 {
                continue;
            }
            let to = place % (tasks.len() - 1);
            tasks.swap(to, to + 1);
            *steps = tasks.concat();
        }
        if !matches!(prove(&changed), Err(Refutation::Malformed(_))) {
            *plan = changed;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn graph_23_every_plan_we_make_is_live(
        actors in prop::collection::vec((0u32..6, Just(0u32)), 1..6),
        tasks in prop::collection::vec((any::<usize>(), prop::collection::vec(any::<usize>(), 1..4)), 1..25),
        slots in 1u32..4,
    ) {
        let plan = plan(text::from_numbers(&(actors, tasks)), settings(slots)).unwrap();
        let certificate = prove(&plan).unwrap();
        prop_assert_eq!(certificate.check(&plan), Ok(()));
    }

    #[test]
    fn graph_24_the_checker_agrees_with_the_theorem_on_any_schedule(
        actors in prop::collection::vec((0u32..4, Just(0u32)), 2..7),
        tasks in prop::collection::vec((any::<usize>(), prop::collection::vec(any::<usize>(), 1..3)), 2..16),
        moves in prop::collection::vec((any::<usize>(), any::<usize>(), any::<bool>()), 0..24),
    ) {
        let mut mutated = plan(text::from_numbers(&(actors, tasks)), settings(1)).unwrap();
        shuffle(&mut mutated, &moves);
        for slots in [1, 2, 3, 10] {
            mutated.settings.slots = slots;
            for channel in &mut mutated.channels {
                channel.slots = if channel.slots == 0 { 1 } else { slots };
            }
            match prove(&mutated) {
                Ok(_) => prop_assert!(!has_cycle(&mutated)),
                Err(Refutation::Deadlock(deadlock)) => {
                    prop_assert!(has_cycle(&mutated));
                    prop_assert!(!deadlock.cycle.is_empty());
                    // The path is a cycle: each party waits for the next, and the last for the first.
                    for (one, next) in deadlock.cycle.iter().zip(deadlock.cycle.iter().cycle().skip(1)) {
                        prop_assert_eq!(one.waits_for, next.party);
                    }
                }
                Err(Refutation::Malformed(what)) => prop_assert!(false, "malformed: {}", what),
            }
        }
    }
}

/// The mutations above do reach deadlocks: some of a fixed set of them must deadlock.
#[test]
fn graph_24_the_mutations_do_make_deadlocks() {
    let mut deadlocks = 0;
    for place in 0..8 {
        let mut mutated = plan(graph(THERE_AND_BACK), settings(1)).unwrap();
        shuffle(&mut mutated, &[(1, place, false), (1, place, true)]);
        deadlocks += usize::from(prove(&mutated).is_err());
    }
    assert!(deadlocks > 0);
}

/// Every graph of up to four tasks over three lanes in two processes: a task reads any non-empty set of the input and
/// the tasks before it.
#[test]
fn graph_23_all_small_graphs_are_live() {
    let mut counts = Vec::new();
    for tasks in 1..=4usize {
        let mut graphs = 0;
        let shapes: usize = (1..=tasks).map(|task| (1 << task) - 1).product();
        for shape in 0..shapes {
            for lanes in 0..3usize.pow(tasks as u32) {
                let (mut shape, mut lanes) = (shape, lanes);
                let mut sketch = text::Sketch::new();
                let actors = [(0, 0), (1, 0), (2, 1)].map(|(lane, process)| sketch.actor("a", lane, process));
                let mut values = vec![sketch.input()];
                for task in 1..=tasks {
                    let sets = (1 << task) - 1;
                    let set = shape % sets + 1;
                    let args: Vec<_> = (0..task)
                        .filter(|bit| set >> bit & 1 == 1)
                        .map(|bit| Some(values[bit]))
                        .collect();
                    values.push(sketch.task(actors[lanes % 3], "f", &args, task));
                    (shape, lanes) = (shape / sets, lanes / 3);
                }
                let plan = plan(sketch.finish(), settings(1)).unwrap();
                assert!(!has_cycle(&plan));
                graphs += 1;
            }
        }
        counts.push(graphs);
    }
    assert_eq!(counts, [3, 3 * 9, 21 * 27, 315 * 81]);
}
