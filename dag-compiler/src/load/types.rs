//! The payload types of values: from the link-time registry of actors.

use std::collections::BTreeMap;

use selvedge_channels::PayloadType;
use selvedge_core::{ActorId, IdMap, MethodEntry, find_method};

use super::{LoadError, LoadSite};
use crate::ir::{self, ArgIr, GraphIr, Origin, Plan, TaskId, TaskIr, ValueId};

/// Whether values of a type may carry tensors of a device.
pub(crate) fn carries_tensors(payload: &PayloadType) -> bool {
    #[cfg(feature = "cuda")]
    if CARRIERS.iter().any(|of| of() == *payload) {
        return true;
    }
    payload.carries_tensors()
}

/// User-defined types whose values carry tensors of a device.
#[cfg(feature = "cuda")]
#[allow(unsafe_code)] // `linkme` places the slice in a section of the binary
#[linkme::distributed_slice]
pub static CARRIERS: [fn() -> PayloadType];

/// The methods of a plan's tasks, from the link-time registry, each looked up once. `None` for a rank of a collective, and
/// for a method that the registry does not have.
fn methods_of(plan: &Plan, actors: &IdMap<ActorId, usize>) -> Vec<Option<&'static MethodEntry>> {
    let mut known = BTreeMap::new();
    let mut methods = Vec::with_capacity(plan.ir.tasks.len());
    for task in &plan.ir.tasks {
        let actor = actors.get(&task.actor).and_then(|at| plan.ir.actors.get(*at));
        let Some(actor) = actor.filter(|_| task.collective.is_none()) else {
            methods.push(None);
            continue;
        };
        let (actor, extension) = (actor.type_name.as_str(), task.extension.as_deref());
        let found = || find_method(actor, extension, task.method).ok().flatten();
        let key = (actor, extension, task.method);
        methods.push(*known.entry(key).or_insert_with(found));
    }
    methods
}

/// The payload types of a plan's values, from the link-time registry.
pub(super) struct RegisteredPayloads(Vec<Option<PayloadType>>);

impl RegisteredPayloads {
    /// Finds the type of each value through its producer, else through its consumers.
    pub(super) fn of(plan: &Plan, actors: &IdMap<ActorId, usize>) -> Self {
        let methods = methods_of(plan, actors);
        let mut payloads = named_by_readers(plan, &methods);
        // What a rank of a collective contributes has the type of its result; it may be a rank's result itself.
        let mut contributions: Vec<(TaskId, usize, ValueId)> = Vec::new();
        for (index, (value, payload)) in plan.ir.values.iter().zip(&mut payloads).enumerate() {
            let task = match value.origin {
                _ if value.signal => {
                    *payload = Some(PayloadType::of::<()>());
                    continue;
                }
                Origin::Input(_) => continue,
                Origin::Task(task) => task,
            };
            if let Some(brought) = contributed(plan, task) {
                contributions.push((task, index, brought));
                continue;
            }
            let method = methods.get(task.index()).copied().flatten();
            *payload = method.and_then(|method| match value.part {
                None => Some((method.result)()),
                Some(part) => (method.parts)().get(usize::from(part)).copied(),
            });
        }
        // A rank reads the results of earlier tasks, whose types are known by then.
        contributions.sort_unstable();
        for (_, index, brought) in contributions {
            let found = payloads.get(brought.index()).copied().flatten();
            if let Some(payload) = payloads.get_mut(index) {
                *payload = found;
            }
        }
        RegisteredPayloads(payloads)
    }

    /// Returns the type of a value.
    pub(super) fn get(&self, value: ValueId) -> Option<PayloadType> {
        self.0.get(value.index()).copied().flatten()
    }
}

/// The value that a rank of a collective contributes; the result has the same type.
fn contributed(plan: &Plan, task: TaskId) -> Option<ValueId> {
    let task = plan.ir.task(task).filter(|task| task.collective.is_some())?;
    GraphIr::reads(task).next().map(|(_, value)| value)
}

/// The types of values as the methods name them that read the values. A generic actor may know less of a type than another
/// reader.
fn named_by_readers(plan: &Plan, methods: &[Option<&'static MethodEntry>]) -> Vec<Option<PayloadType>> {
    let mut payloads: Vec<Option<PayloadType>> = vec![None; plan.ir.values.len()];
    for (task, method) in plan.ir.tasks.iter().zip(methods) {
        let Some(method) = method else { continue };
        for (arg, named) in task.args.iter().zip(argument_types(task, method)) {
            let ArgIr::Value(value) = arg else { continue };
            if let Some(payload) = payloads.get_mut(value.index())
                && !payload.is_some_and(|payload| payload.is_wire())
                && named.is_some_and(|named| payload.is_none() || named.is_wire())
            {
                *payload = named;
            }
        }
    }
    payloads
}

/// The type of each argument of a task: the type of a parameter, or of an element of a list parameter. `None` for
/// arguments that the method does not have, such as the signals that the task waits for.
pub(crate) fn argument_types(task: &TaskIr, method: &MethodEntry) -> Vec<Option<PayloadType>> {
    let mut types = Vec::with_capacity(task.args.len());
    if task.groups.is_empty() {
        types.extend(method.params.iter().map(|param| Some((param.payload)())));
    }
    for (group, param) in task.groups.iter().zip(method.params) {
        let elements = (param.lists)().into_iter().map(|level| level.element);
        let levels: Vec<PayloadType> = std::iter::once((param.payload)()).chain(elements).collect();
        list_types(group, &levels, &mut types);
    }
    types.resize(task.args.len(), None);
    types
}

/// Adds the type of each argument of a group. The first of `levels` is the type of the group itself, the next one that of its
/// members.
fn list_types(group: &ir::ArgGroup, levels: &[PayloadType], types: &mut Vec<Option<PayloadType>>) {
    match group {
        ir::ArgGroup::One => types.push(levels.first().copied()),
        ir::ArgGroup::List(members) => {
            let inner = levels.get(1..).unwrap_or_default();
            members.iter().for_each(|member| list_types(member, inner, types));
        }
    }
}

impl LoadSite<'_> {
    pub(super) fn payload(&self, value: ValueId) -> Result<PayloadType, LoadError> {
        let payload = (self.payload)(value).ok_or(LoadError::Inconsistent("a value of unknown type"))?;
        #[cfg(feature = "cuda")]
        if let Some(carrier) = CARRIERS.iter().map(|of| of()).find(|of| *of == payload) {
            return Ok(carrier);
        }
        Ok(payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::CollectiveId;
    use crate::load::Index;
    use crate::run::model::{graph, planned};

    #[test]
    fn the_type_at_the_end_of_many_collectives_is_that_of_what_was_first_contributed() {
        let ranks = 100_000;
        let reads: Vec<[u32; 1]> = (0..=ranks).map(|task| [task]).collect();
        let tasks: Vec<(u32, &[u32])> = reads.iter().map(|reads| (1, &reads[..])).collect();
        let mut long = graph(&tasks, &[ranks + 1]);
        for (number, task) in (0..).zip(long.tasks.iter_mut().skip(1)) {
            task.collective = Some(CollectiveId(number));
        }
        if let Some(first) = long.values.get_mut(1) {
            first.signal = true;
        }
        let plan = Plan {
            ir: long,
            ..planned(graph(&[(1, &[0])], &[1]), 1, 1)
        };
        let payloads = RegisteredPayloads::of(&plan, &Index::of(&plan).actors);
        assert_eq!(payloads.get(ValueId(ranks + 1)), Some(PayloadType::of::<()>()));
    }
}
