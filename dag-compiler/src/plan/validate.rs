//! Validation: the checks of a graph that need no actors. Everything that is bound must be used.
//!
//! O(tasks + edges).

use selvedge_core::{ActorId, IdSet};

use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{CollectiveIr, GraphIr, Origin, TaskId, TaskIr, ValueId};
use crate::plan::payloads;

/// Returns all mistakes, in the order of the program. A malformed graph, which no binding makes (a number out of range,
/// a task before its inputs), is also a mistake, and then the only one that is returned.
pub fn validate(graph: &GraphIr) -> Vec<Diagnostic> {
    if let Some(what) = malformed(graph) {
        return vec![Diagnostic::new(Code::Internal, what, graph.compiled_at.clone())];
    }
    let (inputs, tasks) = uses(graph);
    let mut found: Vec<Diagnostic> = inputs
        .iter()
        .enumerate()
        .filter_map(|(leaf, uses)| unused_input(graph, leaf, uses))
        .collect();
    // Every rank gets the failure of any rank, so no failure is lost if one result of a collective is used. A
    // collective without any used result is reported once, at its first task.
    let used = |task: &TaskId| {
        tasks
            .get(task.index())
            .is_some_and(|uses| uses.unused().is_some())
    };
    for (index, (task, uses)) in graph.tasks.iter().zip(&tasks).enumerate() {
        let collective = task.collective.and_then(|id| graph.collective(id));
        let others = collective.map_or(&[] as &[TaskId], |collective| collective.tasks.as_slice());
        let spoken_for =
            others.first().is_some_and(|first| first.index() != index) || others.iter().any(used);
        if !spoken_for {
            found.extend(dangling(task, uses));
        }
        found.extend(no_input(task));
    }
    let values = (0..graph.values.len()).map(|index| ValueId(index as u32));
    found.extend(values.filter_map(|value| misplaced(graph, value)));
    found.extend(payloads::check(graph));
    if graph.outputs.is_empty() {
        found.push(Diagnostic::new(
            Code::NoOutput,
            "the graph has no output",
            graph.compiled_at.clone(),
        ));
    }
    found
}

/// The uses of all values that one task, or one input, makes.
#[derive(Clone, Default)]
struct Uses {
    whole: bool,
    /// The number of each part, and whether the part is used. Empty if the value was not split.
    parts: Vec<(u16, bool)>,
}

impl Uses {
    /// Returns the parts that are never used; `None` if nothing at all is used. If the whole is used, its parts count
    /// as used.
    fn unused(&self) -> Option<Vec<u16>> {
        if self.whole {
            return Some(Vec::new());
        }
        if !self.parts.iter().any(|(_, used)| *used) {
            return None;
        }
        Some(
            self.parts
                .iter()
                .filter(|(_, used)| !*used)
                .map(|(part, _)| *part)
                .collect(),
        )
    }
}

/// Returns the uses by input and by task.
fn uses(graph: &GraphIr) -> (Vec<Uses>, Vec<Uses>) {
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
    let mut inputs = vec![Uses::default(); graph.inputs.len()];
    let mut tasks = vec![Uses::default(); graph.tasks.len()];
    for (value, used) in graph.values.iter().zip(used) {
        let uses = match value.origin {
            Origin::Input(leaf) => inputs.get_mut(leaf as usize),
            Origin::Task(task) => tasks.get_mut(task.index()),
        };
        match (uses, value.part) {
            (Some(uses), None) => uses.whole |= used,
            (Some(uses), Some(part)) => uses.parts.push((part, used)),
            (None, _) => {}
        }
    }
    (inputs, tasks)
}

fn dangling(task: &TaskIr, uses: &Uses) -> Option<Diagnostic> {
    let never = never_used(uses, &format!("the result of `{}`", task.label))?;
    let message = format!("{never}, so errors in it would be lost");
    Some(Diagnostic::new(Code::Dangling, message, task.bound_at.clone()).labelled(never))
}

fn unused_input(graph: &GraphIr, leaf: usize, uses: &Uses) -> Option<Diagnostic> {
    let never = never_used(uses, &format!("input {leaf} of the graph"))?;
    Some(Diagnostic::new(
        Code::UnusedInput,
        never,
        graph.compiled_at.clone(),
    ))
}

fn never_used(uses: &Uses, whole: &str) -> Option<String> {
    let Some(parts) = uses.unused() else {
        return Some(format!("{whole} is never used"));
    };
    let (word, is) = match parts.len() {
        0 => return None,
        1 => ("part", "is"),
        _ => ("parts", "are"),
    };
    let numbers = parts.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
    Some(format!("{word} {numbers} of {whole} {is} never used"))
}

/// Reports tensors that cannot lie on the device that was declared for them.
fn misplaced(graph: &GraphIr, id: ValueId) -> Option<Diagnostic> {
    let value = graph.value(id)?;
    let said = value.tensors.device?;
    let maker = graph.maker(id).and_then(|maker| graph.task(maker));
    let location = maker.map_or(&graph.compiled_at, |task| &task.bound_at);
    let name = graph.value_name(id);
    let mistake = |message: String| Diagnostic::new(Code::BadDevice, message, location.clone());
    if !value.tensors.carried {
        let type_name = &value.type_name;
        let message = format!(
            "`{name}` is said to be on device {said}, but `{type_name}` carries no tensors of a device"
        );
        return Some(mistake(message));
    }
    let actor = maker.and_then(|task| graph.actor(task.actor))?;
    let own = actor.device.filter(|own| *own != said)?;
    let actor = &actor.name;
    Some(mistake(format!(
        "`{name}` is said to be on device {said}, but `{actor}`, which makes it, is on device {own}"
    )))
}

fn no_input(task: &TaskIr) -> Option<Diagnostic> {
    GraphIr::reads(task)
        .next()
        .is_none()
        .then(|| Diagnostic::no_input_edge(&task.label, task.bound_at.clone()))
}

/// Describes the first defect that no binding could have caused.
fn malformed(graph: &GraphIr) -> Option<String> {
    let actors: IdSet<ActorId> = graph.actors.iter().map(|actor| actor.id).collect();
    let known = |value: ValueId| graph.value(value).map(|value| value.origin);
    for (index, task) in graph.tasks.iter().enumerate() {
        if !actors.contains(&task.actor) {
            return Some(format!("`{}` belongs to no actor of the graph", task.label));
        }
        let early = |origin: Origin| matches!(origin, Origin::Task(maker) if maker.index() >= index);
        if GraphIr::reads(task).any(|(_, value)| known(value).is_none_or(early)) {
            return Some(format!("`{}` reads what is not bound before it", task.label));
        }
    }
    let broken = |(id, collective): (usize, &CollectiveIr)| !has_ranks(graph, id, collective);
    if let Some(id) = graph.collectives.iter().enumerate().position(broken) {
        return Some(format!(
            "the ranks of collective {id} are not tasks of different actors"
        ));
    }
    let origins = graph.values.iter().map(|value| value.origin);
    let nowhere = |origin: Origin| match origin {
        Origin::Input(leaf) => leaf as usize >= graph.inputs.len(),
        Origin::Task(task) => graph.task(task).is_none(),
    };
    if origins.into_iter().any(nowhere) {
        return Some("a value that nothing makes".to_owned());
    }
    let ends = graph.inputs.iter().chain(&graph.outputs);
    ends.into_iter()
        .any(|value| known(*value).is_none())
        .then(|| "an end that is no value".to_owned())
}

/// Whether the ranks of a collective are its own tasks, of different actors, and the root is one of them.
fn has_ranks(graph: &GraphIr, id: usize, collective: &CollectiveIr) -> bool {
    let own = |task: &TaskId| {
        let collective = graph.task(*task).and_then(|task| task.collective);
        collective.is_some_and(|it| it.0 as usize == id)
    };
    let actors: IdSet<ActorId> = graph.ranks(collective).into_iter().collect();
    let ranks = collective.tasks.len();
    let root = collective.operation.root().is_none_or(|root| root < ranks);
    root && actors.len() == ranks && collective.tasks.iter().all(own)
}
