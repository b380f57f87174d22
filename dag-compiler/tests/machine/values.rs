//! The values that tasks compute in the machine, and a reference that runs an execution task after task.

use std::hash::{DefaultHasher, Hash, Hasher};

use selvedge_compiler::ir::{ArgIr, GraphIr, Origin, ValueId};

pub fn made(task: usize, args: &[u64]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (task, args).hash(&mut hasher);
    hasher.finish()
}

pub fn reduced(collective: u32, args: &[u64]) -> u64 {
    made(collective as usize + 1_000_000, args)
}

pub fn given(leaf: u32, execution: u64) -> u64 {
    made(2_000_000 + leaf as usize, &[execution])
}

pub fn part_of(whole: u64, part: Option<u16>) -> u64 {
    part.map_or(whole, |part| whole.wrapping_add(1 + u64::from(part)))
}

/// The outputs of one execution, computed task after task.
pub fn sequential(graph: &GraphIr, execution: u64) -> Vec<u64> {
    let mut results = vec![0u64; graph.tasks.len()];
    let value = |results: &[u64], id: ValueId| {
        let value = &graph.values[id.0 as usize];
        let whole = match value.origin {
            Origin::Input(leaf) => given(leaf, execution),
            Origin::Task(task) => results[task.0 as usize],
        };
        part_of(whole, value.part)
    };
    let args = |results: &[u64], task: usize| -> Vec<u64> {
        let args = graph.tasks[task].args.iter();
        args.map(|arg| match arg {
            ArgIr::Value(id) => value(results, *id),
            ArgIr::Constant(_) => 7,
        })
        .collect()
    };
    let mut done = vec![false; graph.tasks.len()];
    for task in 0..graph.tasks.len() {
        let Some(collective) = graph.tasks[task].collective else {
            results[task] = made(task, &args(&results, task));
            continue;
        };
        if done[task] {
            continue;
        }
        // All ranks run at once: their inputs are bound before the first of them.
        let ranks: Vec<usize> = (0..graph.tasks.len())
            .filter(|it| graph.tasks[*it].collective == Some(collective))
            .collect();
        let all: Vec<u64> = ranks.iter().flat_map(|rank| args(&results, *rank)).collect();
        for rank in ranks {
            results[rank] = reduced(collective.0, &all);
            done[rank] = true;
        }
    }
    graph.outputs.iter().map(|id| value(&results, *id)).collect()
}
