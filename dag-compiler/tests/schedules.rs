//! The global order and its projection onto lanes.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may panic"
)]

mod text;

use std::cmp::Reverse;

use proptest::prelude::*;
use selvedge_compiler::ir::{ArgIr, EdgeKind, OpKind, Operation, Origin, TaskId};
use selvedge_compiler::plan::compile::plan;
use selvedge_compiler::plan::lower::lower;
use selvedge_compiler::plan::order::{Priority, order};
use text::{graph, lane, settings};

#[test]
fn graph_16_plain_order_without_accelerators() {
    let plan = plan(
        graph("actor a on 1\nactor b on 2@1\ninput x\nu = a.f(x)\nv = b.g(u)\nw = a.h(v, u)\nreturn w"),
        settings(2),
    )
    .unwrap();
    assert_eq!(lane(&plan, 1), "R(a.f) C(a.f) W(a.f) R(a.h) R(a.h) C(a.h) W(a.h)");
    assert_eq!(lane(&plan, 2), "R(b.g) C(b.g) W(b.g)");
    assert_eq!(lane(&plan, 0), "");
}

#[test]
fn graph_16_two_actors_that_send_across_to_each_other() {
    let text =
        "actor a on 1\nactor b on 2\ninput x\nu = a.f(x)\nv = b.f(x)\nw = a.g(v)\nz = b.g(u)\nreturn w, z";
    let plan = plan(graph(text), settings(1)).unwrap();
    assert_eq!(lane(&plan, 1), "R(a.f) C(a.f) W(a.f) R(a.g) C(a.g) W(a.g)");
    assert_eq!(lane(&plan, 2), "R(b.f) C(b.f) W(b.f) R(b.g) C(b.g) W(b.g)");
}

/// One forward, one backward (1F1B): the work of each worker on each micro-batch, as published.
fn one_f_one_b(workers: usize, batches: usize) -> (String, Vec<String>) {
    let mut text: String = (0..workers)
        .map(|worker| format!("actor w{worker} on {}@{worker}\n", worker + 1))
        .collect();
    text += "input x\n";
    let mut expected = vec![Vec::new(); workers];
    // Tasks are bound in the order of a round trip, worker by worker: warm-up, then forward and backward in turn.
    let mut done = vec![(0, 0); workers];
    while done[0].1 < batches {
        for worker in 0..workers {
            let (forward, backward) = done[worker];
            let ready = worker == 0 || done[worker - 1].0 > forward;
            let warm = forward - backward < workers - worker;
            if forward < batches && ready && warm {
                let from = if worker == 0 {
                    "x".to_owned()
                } else {
                    format!("f{}_{forward}", worker - 1)
                };
                text += &format!("f{worker}_{forward} = w{worker}.fwd({from})\n");
                expected[worker].push('F');
                done[worker].0 += 1;
                continue;
            }
            let last = worker + 1 == workers;
            if backward < forward && (last || done[worker + 1].1 > backward) {
                let from = if last {
                    format!("f{worker}_{backward}")
                } else {
                    format!("b{}_{backward}", worker + 1)
                };
                text += &format!("b{worker}_{backward} = w{worker}.bwd({from})\n");
                expected[worker].push('B');
                done[worker].1 += 1;
            }
        }
    }
    let outputs: Vec<String> = (0..batches).map(|batch| format!("b0_{batch}")).collect();
    text += &format!("return {}", outputs.join(", "));
    (
        text,
        expected
            .into_iter()
            .map(|ops| ops.into_iter().collect())
            .collect(),
    )
}

#[test]
fn graph_18_pipeline_parallel_schedules_keep_the_published_order() {
    for (workers, batches) in [(2, 2), (4, 8)] {
        let (text, expected) = one_f_one_b(workers, batches);
        for slots in [1, 2] {
            let plan = plan(graph(&text), settings(slots)).unwrap();
            for (worker, expected) in expected.iter().enumerate() {
                let steps = &plan.lanes[worker + 1].steps;
                let found: String = steps
                    .iter()
                    .filter(|step| step.kind == OpKind::Compute)
                    .map(|step| {
                        if plan.ir.tasks[step.task.0 as usize].method_name == "fwd" {
                            'F'
                        } else {
                            'B'
                        }
                    })
                    .collect();
                assert_eq!(found, *expected, "worker {worker} of {workers}");
                assert_eq!(
                    steps.len(),
                    3 * expected.len(),
                    "READ, COMPUTE, WRITE of every task"
                );
            }
        }
    }
    assert_eq!(one_f_one_b(2, 2).1, ["FFBB", "FBFB"]);
}

#[test]
fn graph_26_a_value_read_twice_by_one_actor_where_one_reader_needs_the_other() {
    let text = "actor a on 1\nactor b on 2@1\ninput x\nu = a.f(x)\nv = b.g(u)\nw = b.h(u, v)\nreturn w";
    let plan = plan(graph(text), settings(1)).unwrap();
    assert_eq!(lane(&plan, 2), "R(b.g) C(b.g) W(b.g) R(b.h) R(b.h) C(b.h) W(b.h)");
}

#[test]
fn graph_04_actors_that_share_a_lane_take_turns_in_bind_order() {
    let text = "actor a on 1\nactor b on 1\ninput x\nu = b.f(x)\nv = a.f(u)\nw = b.f(v)\nreturn w";
    let plan = plan(graph(text), settings(1)).unwrap();
    assert_eq!(
        lane(&plan, 1),
        "R(b.f) C(b.f) W(b.f) R(a.f) C(a.f) W(a.f) R(b.f#2) C(b.f#2) W(b.f#2)"
    );
}

#[test]
fn graph_13_a_cycle_has_no_order() {
    let graph = graph("actor a on 1\nactor b on 2\ninput x\nu = a.f(x)\nv = b.g(u)\nreturn v");
    let mut lowered = lower(&graph);
    assert!(order(&graph, &lowered, true).is_some());
    let back = lowered.edges[0];
    lowered.edges.push(selvedge_compiler::ir::OperationEdge {
        from: 5,
        to: back.from,
        kind: back.kind,
    });
    assert_eq!(order(&graph, &lowered, true), None);
}

fn numbers() -> impl Strategy<Value = text::Numbers> {
    let actors = prop::collection::vec((0u32..6, Just(0u32)), 1..6);
    let tasks = prop::collection::vec(
        (any::<usize>(), prop::collection::vec(any::<usize>(), 1..4)),
        1..25,
    );
    (actors, tasks)
}

proptest! {
    #[test]
    fn graph_12_the_priority_is_a_total_order(keys in prop::collection::vec((0u64..4, 0u32..4, 0u32..4), 3)) {
        let key = |(ns, task, operation)| Priority { critical_ns: Reverse(ns), task: TaskId(task), operation };
        let keys: Vec<Priority> = keys.into_iter().map(key).collect();
        let (a, b, c) = (keys[0], keys[1], keys[2]);
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        prop_assert_eq!(a == b, a.cmp(&b).is_eq());
        prop_assert!(!(a <= b && b <= c) || a <= c);
    }

    #[test]
    fn graph_13_every_operation_stands_once_and_after_what_it_waits_for(numbers in numbers()) {
        let graph = text::from_numbers(&numbers);
        let lowered = lower(&graph);
        let order = order(&graph, &lowered, true).unwrap().operations;
        let mut place = vec![usize::MAX; lowered.operations.len()];
        for (position, operation) in order.iter().enumerate() {
            prop_assert_eq!(std::mem::replace(&mut place[*operation as usize], position), usize::MAX);
        }
        prop_assert!(place.iter().all(|place| *place != usize::MAX));
        for edge in &lowered.edges {
            prop_assert!(place[edge.from as usize] < place[edge.to as usize]);
        }
    }

    #[test]
    fn graph_05_what_makes_a_value_stands_before_everything_that_reads_it(numbers in numbers()) {
        let graph = text::from_numbers(&numbers);
        let mut expected = Vec::new();
        for (reader, task) in (0..).zip(&graph.tasks) {
            for (arg, value) in (0..).zip(&task.args) {
                let ArgIr::Value(value) = value else { continue };
                if let Origin::Task(task) = graph.values[value.0 as usize].origin {
                    let kind = OpKind::Read { arg };
                    let read = Operation { task: TaskId(reader), kind };
                    expected.push((Operation { task, kind: OpKind::Write }, read));
                }
            }
        }
        let lowered = lower(&graph);
        let operation = |index: u32| lowered.operations[index as usize];
        let data = lowered.edges.iter().filter(|edge| edge.kind == EdgeKind::Data);
        let found: Vec<_> = data.map(|edge| (operation(edge.from), operation(edge.to))).collect();
        prop_assert_eq!(found, &expected[..]);
        // The global order keeps these edges, and so does every lane that has both operations.
        let order = order(&graph, &lowered, true).unwrap().operations;
        let order: Vec<Operation> = order.into_iter().map(operation).collect();
        let plan = plan(graph, settings(1)).unwrap();
        let programs = plan.lanes.iter().map(|lane| &lane.steps).chain([&order]);
        for program in programs {
            let place = |operation| program.iter().position(|it| *it == operation);
            for (write, read) in &expected {
                if let (Some(write), Some(read)) = (place(*write), place(*read)) {
                    prop_assert!(write < read);
                }
            }
        }
        prop_assert_eq!(order.len(), lowered.operations.len());
    }

    #[test]
    fn graph_10_same_graph_same_schedule(numbers in numbers()) {
        let first = plan(text::from_numbers(&numbers), settings(2)).unwrap();
        for _ in 0..20 {
            prop_assert_eq!(&plan(text::from_numbers(&numbers), settings(2)).unwrap(), &first);
        }
    }

    #[test]
    fn graph_16_every_lane_of_every_graph_has_plain_order(numbers in numbers()) {
        let graph = text::from_numbers(&numbers);
        let plan = plan(graph.clone(), settings(1)).unwrap();
        let mut operations = 0;
        for lane in &plan.lanes {
            let tasks: Vec<TaskId> = lane.steps.iter().filter(|it| it.kind == OpKind::Compute).map(|it| it.task).collect();
            for actor in &graph.actors {
                let own = tasks.iter().filter(|task| graph.tasks[task.0 as usize].actor == actor.id);
                prop_assert!(own.is_sorted(), "an actor's methods run in bind order");
            }
            let mut expected = Vec::new();
            for task in tasks {
                let reads = graph.tasks[task.0 as usize].args.len();
                expected.extend((0..reads).map(|arg| (task, OpKind::Read { arg: arg as u32 })));
                expected.extend([(task, OpKind::Compute), (task, OpKind::Write)]);
            }
            let found: Vec<_> = lane.steps.iter().map(|step| (step.task, step.kind)).collect();
            prop_assert_eq!(found, expected);
            operations += lane.steps.len();
        }
        prop_assert_eq!(operations, lower(&graph).operations.len());
    }
}
