//! The check of payloads: whether each value's type has the traits that its readers ask for.
//!
//! A value that crosses processes must be `Wire` and must not hold references beside device tensors, one with several readers `Clone`, and one with readers on several lanes
//! of a process `Clone` and `Sync`. Lanes count as they were spawned, so that the verdict does not depend on the number of
//! cores.
//!
//! O(tasks + edges log lanes).

use selvedge_core::{ActorId, Address, IdMap, IdSet};

use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{ActorIr, GraphIr, Origin, SourceLocation, ValueId};

/// The readers of a value whose type lacks a trait.
#[derive(Default)]
struct Readers<'a> {
    count: usize,
    lanes: IdSet<Address>,
    /// Whether a task is among them.
    by_tasks: bool,
    /// The reader in another process: its name, its place, and its line.
    far: Option<(String, String, &'a SourceLocation)>,
    /// The last reader in the order of the program.
    last: Option<(String, &'a SourceLocation)>,
}

/// Returns the mistakes, in the order of the values.
pub(super) fn check(graph: &GraphIr) -> Vec<Diagnostic> {
    let lacking = |value: ValueId| {
        let traits = graph.value(value).map(|value| value.traits);
        traits.is_some_and(|traits| !(traits.clone && traits.shared && traits.wire) || traits.mixed)
    };
    if !(0..graph.values.len() as u32).map(ValueId).any(lacking) {
        return Vec::new();
    }
    let actors = graph.actors_by_id();
    let mut readers: IdMap<ValueId, Readers<'_>> = IdMap::new();
    let mut parted: IdSet<Origin> = IdSet::new();
    let mut note = |value: ValueId, name: &dyn Fn() -> String, place: (Address, String), line, is_task| {
        if let Some(part) = graph.value(value).filter(|value| value.part.is_some()) {
            parted.insert(part.origin);
        }
        if !lacking(value) {
            return;
        }
        let readers: &mut Readers<'_> = readers.or_default(value);
        readers.count += 1;
        readers.by_tasks |= is_task;
        readers.lanes.insert(place.0);
        if !place.0.is_near(home(graph, &actors, value)) && readers.far.is_none() {
            readers.far = Some((name(), place.1, line));
        }
        readers.last = Some((name(), line));
    };
    for task in &graph.tasks {
        let Some(actor) = actors.get(&task.actor) else {
            continue;
        };
        for (_, value) in GraphIr::reads(task) {
            let name = || format!("`{}`", task.label);
            note(
                value,
                &name,
                (actor.home, actor.placement.clone()),
                &task.bound_at,
                true,
            );
        }
    }
    for output in &graph.outputs {
        let name = || "an output of the graph".to_owned();
        let place = (Address::DRIVER, "the driver's process".to_owned());
        note(*output, &name, place, &graph.compiled_at, false);
    }
    for (value, readers) in readers.iter_mut() {
        // The whole of a tuple is copied if its parts are used too.
        let whole = graph.value(*value).filter(|value| value.part.is_none());
        if whole.is_some_and(|whole| parted.contains(&whole.origin)) {
            readers.count += 1;
        }
    }
    readers
        .iter()
        .filter_map(|(value, readers)| mistake(graph, *value, readers))
        .collect()
}

/// The place where a value is made.
fn home(graph: &GraphIr, actors: &IdMap<ActorId, &ActorIr>, value: ValueId) -> Address {
    let maker = graph.maker(value).and_then(|task| graph.task(task));
    let actor = maker.and_then(|task| actors.get(&task.actor));
    actor.map_or(Address::DRIVER, |actor| actor.home)
}

fn mistake(graph: &GraphIr, id: ValueId, readers: &Readers<'_>) -> Option<Diagnostic> {
    let value = graph.value(id)?;
    let (traits, type_name) = (value.traits, &value.type_name);
    let made = match graph.maker(id) {
        Some(task) => format!("the result of `{}`", graph.label(task)),
        None => "an input of the graph".to_owned(),
    };
    if let (Some((reader, place, line)), false) = (&readers.far, traits.wire) {
        let lacks = match (traits.clone, traits.shared) {
            (_, true) => "is not known to serde",
            (true, false) => "is not `Sync`, or not known to serde",
            (false, false) => "is not `Clone`, or not known to serde",
        };
        let message = format!("{made} crosses to {place}, and its type `{type_name}` {lacks}");
        let label = format!("{reader} reads a `{type_name}` from another process");
        return Some(Diagnostic::new(Code::NotWire, message, (*line).clone()).labelled(label));
    }
    if let (Some((reader, place, line)), true) = (&readers.far, traits.mixed) {
        let message = format!(
            "{made} crosses to {place}, and its type `{type_name}` holds references beside device tensors"
        );
        let label = format!("{reader} reads a `{type_name}` from another process");
        return Some(Diagnostic::new(Code::MixedValue, message, (*line).clone()).labelled(label));
    }
    let (reader, line) = readers.last.as_ref()?;
    let lacks = match (readers.count > 1, readers.lanes.len() > 1) {
        (true, _) if !traits.clone => "has several readers, and its type `{}` is not `Clone`",
        (_, true) if !traits.shared => {
            "has readers on several lanes, and its type `{}` is not `Clone` and `Sync`"
        }
        _ => return None,
    };
    let mut message = format!("{made} {}", lacks.replace("{}", type_name));
    if !readers.by_tasks && graph.maker(id).is_none() {
        // Only a method of an actor can tell the compiler what a type can do.
        message.push_str(", as far as is known: no method of the graph's actors names it");
    }
    let label = format!("{reader} is a further reader");
    Some(Diagnostic::new(Code::NotShared, message, (*line).clone()).labelled(label))
}
