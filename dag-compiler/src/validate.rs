//! What a graph may not be, as far as it shows without actors: everything that is bound must be used.

use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{GraphIr, Origin, TaskId};

/// All mistakes, in the order of the program.
pub fn validate(graph: &GraphIr) -> Vec<Diagnostic> {
    let mut used = vec![false; graph.values.len()];
    let reads = graph
        .tasks
        .iter()
        .flat_map(|task| GraphIr::reads(task).map(|(_, value)| value));
    for value in reads.chain(graph.outputs.iter().copied()) {
        if let Some(used) = used.get_mut(value.index()) {
            *used = true;
        }
    }
    let mut found = unused_inputs(graph, &used);
    found.extend((0..graph.tasks.len()).filter_map(|task| dangling(graph, TaskId(task as u32), &used)));
    found.extend((0..graph.tasks.len()).filter_map(|task| no_input(graph, TaskId(task as u32))));
    if graph.outputs.is_empty() {
        found.push(Diagnostic::new(
            Code::NoOutput,
            "the graph has no output",
            graph.compiled_at.clone(),
        ));
    }
    found
}

/// The values of an origin that nobody uses. A whole whose parts are used is used.
fn unused(graph: &GraphIr, origin: Origin, used: &[bool]) -> Vec<String> {
    let mine = || {
        graph
            .values
            .iter()
            .zip(used)
            .filter(|(value, _)| value.origin == origin)
    };
    let parts: Vec<_> = mine().filter(|(value, _)| value.part.is_some()).collect();
    if parts.is_empty() {
        return if mine().any(|(_, used)| *used) {
            Vec::new()
        } else {
            vec!["its result".to_owned()]
        };
    }
    if mine().any(|(value, used)| value.part.is_none() && *used) {
        // The whole is used: parts may be left.
        return Vec::new();
    }
    let part = |value: &crate::ir::ValueIr| format!("part {}", value.part.unwrap_or_default());
    parts
        .iter()
        .filter(|(_, used)| !**used)
        .map(|(value, _)| part(value))
        .collect()
}

fn dangling(graph: &GraphIr, id: TaskId, used: &[bool]) -> Option<Diagnostic> {
    let unused = unused(graph, Origin::Task(id), used);
    let task = graph.task(id)?;
    if unused.is_empty() {
        return None;
    }
    let what = unused.join(", ");
    let message = format!(
        "`{}` is bound, but {what} is never used, so its errors would be lost",
        task.label
    );
    let label = format!("{what} of `{}` is never used", task.label);
    Some(Diagnostic::new(Code::Dangling, message, task.bound_at.clone()).labelled(label))
}

fn no_input(graph: &GraphIr, id: TaskId) -> Option<Diagnostic> {
    let task = graph.task(id)?;
    if GraphIr::reads(task).next().is_some() {
        return None;
    }
    let message = format!("`{}` takes no edge, so nothing would ever start it", task.label);
    Some(
        Diagnostic::new(Code::NoInputEdge, message, task.bound_at.clone())
            .labelled("all its arguments are constants"),
    )
}

fn unused_inputs(graph: &GraphIr, used: &[bool]) -> Vec<Diagnostic> {
    (0..graph.inputs.len() as u32)
        .filter(|leaf| !unused(graph, Origin::Input(*leaf), used).is_empty())
        .map(|leaf| {
            let message = format!("input {leaf} of the graph is never used");
            Diagnostic::new(Code::UnusedInput, message, graph.compiled_at.clone())
        })
        .collect()
}
