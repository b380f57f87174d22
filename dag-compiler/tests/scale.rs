//! Compile time grows with the graph, not with its square: the test counts steps. Times are printed, not asserted:
//! `TASKS=1000000 cargo test --release -p selvedge-compiler --test scale -- --nocapture`.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may panic"
)]

mod machine;
mod text;

use std::time::Instant;

use selvedge_compiler::ir::{GraphIr, ValueId};
use selvedge_compiler::plan::compile::plan;
use selvedge_compiler::plan::lower::lower;
use selvedge_compiler::plan::order::order;
use selvedge_compiler::plan::pipeline::PipelineSchedule;
use selvedge_compiler::prove::prove;
use text::{Sketch, settings};

fn sketch(lanes: u32) -> (Sketch, Vec<selvedge_core::ActorId>, ValueId) {
    let mut sketch = Sketch::new();
    let actors = (0..lanes)
        .map(|lane| sketch.actor(&format!("a{lane}"), lane, lane / 4))
        .collect();
    let input = sketch.input();
    (sketch, actors, input)
}

/// A chain of tasks that visits the lanes in turn.
fn chain(tasks: usize) -> GraphIr {
    let (mut sketch, actors, mut last) = sketch(16);
    for task in 0..tasks {
        last = sketch.task(
            actors[task % actors.len()],
            &format!("m{task}"),
            &[Some(last)],
            task,
        );
    }
    sketch.finish()
}

/// Layers of 16 tasks, each of which reads two tasks of the previous layer and the input.
fn layers(tasks: usize) -> GraphIr {
    let (mut sketch, actors, input) = sketch(16);
    let mut before = vec![input; 16];
    for layer in 0..tasks / 16 {
        let task = |at: usize, sketch: &mut Sketch| {
            let args = [Some(before[at]), Some(before[(at + 1) % 16]), Some(input)];
            sketch.task(actors[(at + layer) % 16], &format!("m{layer}"), &args, layer)
        };
        before = (0..16).map(|at| task(at, &mut sketch)).collect();
    }
    sketch.finish()
}

/// A star: one input to all tasks, and all results to one task.
fn star(tasks: usize) -> GraphIr {
    let (mut sketch, actors, input) = sketch(16);
    let all: Vec<_> = (0..tasks.min(60_000))
        .map(|task| Some(sketch.task(actors[task % 16], &format!("m{task}"), &[Some(input)], task)))
        .collect();
    sketch.task(actors[1], "gather", &all, 0);
    sketch.finish()
}

/// One value that many lanes read, round after round.
fn broadcast(tasks: usize) -> GraphIr {
    let (mut sketch, actors, mut last) = sketch(1000);
    for round in 0..tasks.div_ceil(1000) {
        let all: Vec<_> = actors
            .iter()
            .map(|actor| Some(sketch.task(*actor, &format!("m{round}"), &[Some(last)], round)))
            .collect();
        last = all[0].unwrap();
        if round + 1 == tasks.div_ceil(1000) {
            last = sketch.task(actors[0], "gather", &all, round);
        }
    }
    let _ = last;
    sketch.finish()
}

/// Random layers of a hundred tasks, each of which reads one to three values of the previous layer.
fn random(tasks: usize) -> GraphIr {
    let (mut sketch, actors, input) = sketch(16);
    let mut random = machine::Random(1);
    let mut before = vec![input];
    for layer in 0..tasks.div_ceil(100) {
        let mut now = Vec::with_capacity(100);
        for _ in 0..100 {
            let args: Vec<_> = (0..1 + random.below(3))
                .map(|_| Some(before[random.below(before.len())]))
                .collect();
            now.push(sketch.task(actors[random.below(16)], &format!("m{layer}"), &args, layer));
        }
        before = now;
    }
    sketch.finish()
}

/// The 1F1B pipeline over 64 stages.
fn one_f_one_b(tasks: usize) -> GraphIr {
    let (mut sketch, actors, input) = sketch(64);
    let batches = tasks.div_ceil(128);
    let mut held = vec![input; batches];
    for step in PipelineSchedule::OneForwardOneBackward.steps(64, batches) {
        let method = if step.backward { "bwd" } else { "fwd" };
        held[step.batch] = sketch.task(actors[step.stage], method, &[Some(held[step.batch])], step.batch);
    }
    sketch.finish()
}

/// The number of steps of ordering grows with operations and edges, and the certificate has as many moments as the
/// graph has operations. The test prints the time that both took.
#[test]
fn graph_28_the_steps_of_ordering_grow_with_operations_and_edges() {
    let most: usize = if cfg!(debug_assertions) { 10_000 } else { 100_000 };
    type Shape = (&'static str, fn(usize) -> GraphIr);
    let most = std::env::var("TASKS").map_or(most, |text| text.parse().unwrap());
    let shapes: [Shape; 6] = [
        ("random", random),
        ("1F1B", one_f_one_b),
        ("chain", chain),
        ("layers", layers),
        ("star", star),
        ("broadcast", broadcast),
    ];
    for (name, shape) in shapes {
        for tasks in [most / 1000, most / 100, most / 10, most] {
            let graph = shape(tasks);
            let bound = graph.tasks.len();
            let edges: usize = graph.tasks.iter().map(|task| task.args.len()).sum();
            let start = Instant::now();
            let plan = plan(graph, settings(10)).unwrap();
            let planned = start.elapsed();
            let start = Instant::now();
            let moments = prove(&plan).unwrap().order.len();
            let proven = start.elapsed();
            println!(
                "{name:>10} {bound:>7} tasks {edges:>7} edges: planned in {planned:.2?}, proven again in {proven:.2?}"
            );
            assert_eq!(moments, 2 * bound + edges, "each operation is ordered once");
            let lowered = lower(&plan.ir);
            let size = (lowered.operations.len() + lowered.edges.len()) as u64;
            let steps = order(&plan.ir, &lowered, true).unwrap().steps;
            assert!(
                steps <= size,
                "{name}: {steps} steps for {size} operations and edges"
            );
        }
    }
}
