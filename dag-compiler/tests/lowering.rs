//! Lowering of tasks to operations, and the order between operations.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may panic"
)]

mod text;

use std::collections::{BTreeMap, BTreeSet};

use selvedge_compiler::ir::{EdgeKind, GraphIr, OpKind, OperationGraph, TaskIr};
use selvedge_compiler::plan::compile::plan;
use selvedge_compiler::plan::lower::lower;

/// Edges of one kind, as pairs of `label operation`.
fn edges(graph: &GraphIr, lowered: &OperationGraph, kind: EdgeKind) -> Vec<String> {
    let name = |index: u32| {
        let operation = lowered.operations[index as usize];
        format!(
            "{} {}",
            graph.tasks[operation.task.0 as usize].label, operation.kind
        )
    };
    let same = lowered.edges.iter().filter(|edge| edge.kind == kind);
    same.map(|edge| format!("{} -> {}", name(edge.from), name(edge.to)))
        .collect()
}

const TWO: &str = "
actor a on 1
actor b on 2
input x
u = a.f(x)
v = b.g(u, x)
w = a.h(u, v, #)
return w";

#[test]
fn graph_01_a_task_becomes_a_read_per_edge_a_compute_and_a_write() {
    let graph = text::graph(TWO);
    let lowered = lower(&graph);
    let kinds: Vec<OpKind> = lowered
        .operations
        .iter()
        .filter(|it| it.task.0 == 1)
        .map(|it| it.kind)
        .collect();
    assert_eq!(
        kinds,
        [
            OpKind::Read { arg: 0 },
            OpKind::Read { arg: 1 },
            OpKind::Compute,
            OpKind::Write
        ]
    );
    // Three tasks with 1, 2 and 2 edges: the constant has no READ (TASK-12).
    assert_eq!(lowered.operations.len(), 3 * 2 + 1 + 2 + 2);
}

#[test]
fn graph_03_reads_come_before_compute_before_write() {
    let graph = text::graph(TWO);
    let found = edges(&graph, &lower(&graph), EdgeKind::Program);
    assert!(found.contains(&"b.g READ 0 -> b.g COMPUTE".to_owned()));
    assert!(found.contains(&"b.g READ 1 -> b.g COMPUTE".to_owned()));
    assert!(found.contains(&"b.g COMPUTE -> b.g WRITE".to_owned()));
    assert_eq!(found.len(), 2 + 3 + 3);
}

#[test]
fn graph_04_computes_of_one_actor_are_chained_in_bind_order() {
    let graph = text::graph(TWO);
    assert_eq!(
        edges(&graph, &lower(&graph), EdgeKind::Control),
        ["a.f COMPUTE -> a.h COMPUTE"]
    );
}

#[test]
fn graph_05_a_write_comes_before_every_read_of_its_value() {
    let graph = text::graph(TWO);
    let found = edges(&graph, &lower(&graph), EdgeKind::Data);
    assert_eq!(
        found,
        [
            "a.f WRITE -> b.g READ 0",
            "a.f WRITE -> a.h READ 0",
            "b.g WRITE -> a.h READ 1"
        ]
    );
}

#[test]
fn graph_06_a_part_of_a_tuple_has_no_operations_of_its_own() {
    let graph = text::graph(
        "actor a on 1\nactor b on 2\ninput x\np q = a.pair(x)\nu = b.f(p)\nv = b.f(q)\nreturn u, v",
    );
    let lowered = lower(&graph);
    assert_eq!(lowered.operations.len(), 9);
    let data = edges(&graph, &lowered, EdgeKind::Data);
    assert_eq!(
        data,
        ["a.pair WRITE -> b.f READ 0", "a.pair WRITE -> b.f#2 READ 0"]
    );
}

#[test]
fn graph_07_inputs_and_outputs_have_no_edges() {
    let graph = text::graph("actor a on 1\ninput x\nu = a.f(x)\nreturn u, x");
    let lowered = lower(&graph);
    assert!(edges(&graph, &lowered, EdgeKind::Data).is_empty());
    assert_eq!(lowered.edges.len(), 2, "the task's own");
}

/// A graph that reads a value twice in one task, from two tasks of a lane, across lanes and by a rendezvous.
const SHARED: &str = "
actor a on 1
actor b on 2@1
actor c on 3 commutes
input x
u = a.f(x)
v = b.g(u, u, #)
w = a.h(u, v)
y = c.f(!v)
z = c.g(!v, w, x)
return y, z";

#[test]
fn graph_08_every_operation_has_the_edges_in_and_out_that_its_task_has_and_none_twice() {
    for text in [TWO, SHARED] {
        let graph = text::graph(text);
        let lowered = lower(&graph);
        let mut pairs = BTreeSet::new();
        let (mut into, mut out) = (BTreeMap::new(), BTreeMap::new());
        for edge in &lowered.edges {
            assert!(pairs.insert((edge.from, edge.to)), "{edge:?} is there twice");
            *into.entry(edge.to).or_default() += 1;
            *out.entry(edge.from).or_default() += 1;
        }
        let made = |value| graph.maker(value).is_some();
        for (index, operation) in (0u32..).zip(&lowered.operations) {
            let task = &graph.tasks[operation.task.0 as usize];
            // Tasks of the same actor before and after this one: its COMPUTE waits for the earlier one, and the later
            // one waits for it.
            let ordered = !graph.actors[task.actor.0 as usize].commutes;
            let same = |other: &TaskIr| ordered && other.actor == task.actor;
            let (before, from) = graph.tasks.split_at(operation.task.0 as usize);
            let (before, after) = (before.iter().any(same), from[1..].iter().any(same));
            let reads = || graph.tasks.iter().flat_map(GraphIr::reads);
            let expected = match operation.kind {
                OpKind::Read { .. } => (made(graph.read_by(*operation).unwrap()) as usize, 1),
                OpKind::Write => (
                    1,
                    reads()
                        .filter(|(_, value)| graph.maker(*value) == Some(operation.task))
                        .count(),
                ),
                _ => (GraphIr::reads(task).count() + before as usize, 1 + after as usize),
            };
            let found = [&into, &out].map(|edges| edges.get(&index).copied().unwrap_or(0));
            assert_eq!(
                found,
                [expected.0, expected.1],
                "{} of {}",
                operation.kind,
                task.label
            );
        }
    }
}

#[test]
fn graph_27_the_operation_graph_prints_as_dot() {
    // The text has every kind of edge, and a receive that is posted earlier than its place in the global order.
    let text = "actor a on 1\nactor b on 2\ninput x\nu = a.f(x)\nv = b.f(x)\nw = a.h(u, !v)\nreturn w";
    let plan = plan(text::graph(text), text::settings(1)).unwrap();
    text::golden("operations.dot", &lower(&plan.ir).to_dot(&plan));
}
