//! A task: its method, its arguments and its outlets.

use selvedge_channels::AnyOutlet;
use selvedge_core::{ActorState, BoxError, Failure, Frame, MethodEntry, ValueIx, find_actor, find_method};

use super::ends::Rings;
use super::index::Places;
use super::lane::lists;
use super::types::argument_types;
use super::{LoadError, LoadSite};
use crate::ir::{ActorIr, ArgIr, TaskId, TaskIr};
use crate::run::lane::{Beside, LaneValues, Straight, TaskRun};
use crate::run::report::TaskInfo;

impl LoadSite<'_> {
    /// Builds a task of a lane; adds its constants and lists to the lane's values.
    pub(super) fn task(
        &self,
        id: TaskId,
        places: &Places,
        values: &mut LaneValues,
        rings: &mut Rings,
    ) -> Result<TaskRun, LoadError> {
        let task = self.plan.ir.task(id);
        let task = task.ok_or(LoadError::Inconsistent("an unknown task"))?;
        let actor = self.index.actors.get(&task.actor);
        let actor = actor.and_then(|index| self.plan.ir.actors.get(*index));
        let actor = actor.ok_or(LoadError::Inconsistent("a task without an actor"))?;
        let method = method(task, actor)?;
        let args = self.arguments((id, task), method, places, values)?;
        let (params, gathers) = lists(task, method, &args, values)?;
        let brings = self.brings(task, actor, &args, values)?;
        let results = 1 + method.map_or(0, |method| (method.parts)().len());
        let outlets = self.outlets(id, results, places, rings)?;
        let mut run = TaskRun {
            id,
            actor: task.actor,
            seat: 0,
            compute: method.map_or(no_method, |method| method.compute),
            info: TaskInfo {
                task: task.label.clone(),
                actor: actor.name.clone(),
                placement: actor.placement.clone(),
                bound_at: task.bound_at.clone(),
            },
            args,
            params,
            gathers,
            brings,
            sole: sole(&outlets),
            outlets,
            results,
            straight: None,
            fault: None,
            collective: None,
            beside: None,
        };
        run.beside = self.beside(id, method, actor, places)?;
        run.straight = method.and_then(|_| Straight::of(&run));
        Ok(run)
    }

    /// The record of a task whose method overlaps with others of its actor, or excludes them. The lane goes on after such
    /// a task if none of its results stays on the lane.
    fn beside(
        &self,
        id: TaskId,
        method: Option<&MethodEntry>,
        actor: &ActorIr,
        places: &Places,
    ) -> Result<Option<Box<Beside>>, LoadError> {
        let Some(method) = method.filter(|_| actor.concurrency > 1) else {
            return Ok(None);
        };
        let goes_on = self.index.made_by(id).all(|made| places.value(made).is_none());
        let executions = self.wants(actor.lane)?;
        Ok(Beside::of(method.sharing, actor.concurrency, goes_on, executions))
    }

    /// The outlets of the values that a task makes: the whole result, its parts, and the signal that the task is done.
    fn outlets(
        &self,
        id: TaskId,
        results: usize,
        places: &Places,
        rings: &mut Rings,
    ) -> Result<Vec<Option<Box<dyn AnyOutlet>>>, LoadError> {
        let mut outlets: Vec<Option<Box<dyn AnyOutlet>>> = Vec::with_capacity(results + 1);
        outlets.resize_with(results + 1, || None);
        for made in self.index.made_by(id) {
            if self.channels(made).next().is_none() {
                continue;
            }
            let value = self.plan.ir.value(made);
            let place = match value.and_then(|value| value.part) {
                _ if value.is_some_and(|value| value.signal) => results,
                None => 0,
                Some(part) => usize::from(part) + 1,
            };
            let is_part = value.is_some_and(|value| value.part.is_some() && !value.signal);
            let slot = outlets.get_mut(place).filter(|_| !is_part || place < results);
            let slot = slot.ok_or(LoadError::Inconsistent("a part that the result has not"))?;
            *slot = Some(self.outlet(made, places.value(made), rings)?);
        }
        Ok(outlets)
    }

    /// The values of a task's arguments. Each constant becomes a value of its own.
    fn arguments(
        &self,
        (id, task): (TaskId, &TaskIr),
        method: Option<&MethodEntry>,
        places: &Places,
        values: &mut LaneValues,
    ) -> Result<Vec<ValueIx>, LoadError> {
        let has_constants = task.args.iter().any(|arg| matches!(arg, ArgIr::Constant(_)));
        let types = method
            .filter(|_| has_constants)
            .map(|method| argument_types(task, method));
        let payload = |position: u32| types.as_ref()?.get(position as usize).copied().flatten();
        let argument = |(position, arg): (u32, &ArgIr)| match arg {
            ArgIr::Value(value) => {
                let place = places.value(*value);
                place.ok_or(LoadError::Inconsistent("an argument that its lane does not read"))
            }
            ArgIr::Constant(bytes) => {
                let payload = payload(position).ok_or(LoadError::Inconsistent("too many arguments"))?;
                Ok(values.push(match self.constants.get(&(id, position)) {
                    Some(constant) => constant.value(payload)?,
                    None => payload.constant(bytes)?,
                }))
            }
        };
        (0..).zip(&task.args).map(argument).collect()
    }
}

/// The method of a task; `None` for a rank of a collective.
fn method(task: &TaskIr, actor: &ActorIr) -> Result<Option<&'static MethodEntry>, LoadError> {
    let unknown = |error: BoxError| LoadError::UnknownActor(error.to_string());
    if task.collective.is_some() {
        find_actor(&actor.type_name).map_err(|error| unknown(error.into()))?;
        return Ok(None);
    }
    let method = find_method(&actor.type_name, task.extension.as_deref(), task.method).map_err(unknown)?;
    method
        .map(Some)
        .ok_or(LoadError::Inconsistent("an unknown method"))
}

/// The index of the only outlet, if there is only one and publishing to it runs no user code.
fn sole(outlets: &[Option<Box<dyn AnyOutlet>>]) -> Option<usize> {
    let mut wanted = outlets
        .iter()
        .enumerate()
        .filter_map(|(index, outlet)| Some((index, outlet.as_ref()?.only_moves())));
    match (wanted.next(), wanted.next()) {
        (Some((index, true)), None) => Some(index),
        _ => None,
    }
}

/// Stands in the place of the method of a rank, which is never called.
fn no_method(_: &mut ActorState, _: &mut Frame<'_>) -> Result<(), Box<Failure>> {
    Err(Box::new(Failure::Internal(
        "a rank of a collective has no method".into(),
    )))
}
