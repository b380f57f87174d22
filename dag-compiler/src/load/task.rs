//! A task: its method, its arguments and its outlets.

use selvedge_channels::{AnyOutlet, AnyValue};
use selvedge_core::{ActorState, Failure, Frame, ValueIx, find_actor};

use super::ends::Rings;
use super::index::Places;
use super::lists::lists;
use super::types::argument_type;
use super::{LoadError, LoadSite};
use crate::ir::{ArgIr, TaskId};
use crate::run::lane::{Straight, TaskRun};
use crate::run::report::TaskInfo;
use crate::run::table::Table;

impl LoadSite<'_> {
    pub(super) fn task(
        &self,
        id: TaskId,
        places: &Places,
        values: &mut Table<ValueIx, Box<dyn AnyValue>>,
        rings: &mut Rings,
    ) -> Result<TaskRun, LoadError> {
        let task = self
            .plan
            .ir
            .tasks
            .get(id.0 as usize)
            .ok_or(LoadError::Inconsistent("an unknown task"))?;
        let actor = self
            .index
            .actors
            .get(&task.actor)
            .and_then(|index| self.plan.ir.actors.get(*index));
        let actor = actor.ok_or(LoadError::Inconsistent("a task without an actor"))?;
        let entry =
            find_actor(&actor.type_name).map_err(|error| LoadError::UnknownActor(error.to_string()))?;
        let method = match task.collective {
            Some(_) => None,
            None => Some(entry.methods.get(usize::from(task.method)))
                .map(|method| method.ok_or(LoadError::Inconsistent("an unknown method")))
                .transpose()?,
        };
        let mut args = Vec::with_capacity(task.args.len());
        for (position, arg) in task.args.iter().enumerate() {
            args.push(match arg {
                ArgIr::Value(value) => places
                    .value(*value)
                    .ok_or(LoadError::Inconsistent("an argument that its lane does not read"))?,
                ArgIr::Constant(bytes) => {
                    let payload = method.and_then(|method| argument_type(task, method, position));
                    let payload = payload.ok_or(LoadError::Inconsistent("too many arguments"))?;
                    values.push(payload.constant(bytes)?)
                }
            });
        }
        let (params, gathers) = match method {
            Some(method) => lists(task, method, &args, values)?,
            None => (args.clone(), Vec::new()),
        };
        let brings = self.brings(task, actor, &args, values)?;
        let results = 1 + method.map_or(0, |method| (method.parts)().len());
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
            let slot = outlets
                .get_mut(place)
                .ok_or(LoadError::Inconsistent("a part that the result has not"))?;
            *slot = Some(self.outlet(made, places.value(made), rings)?);
        }
        let info = TaskInfo {
            task: task.label.clone(),
            actor: actor.name.clone(),
            placement: actor.placement.clone(),
            bound_at: task.bound_at.clone(),
        };
        let mut wanted = outlets
            .iter()
            .enumerate()
            .filter_map(|(index, outlet)| Some((index, outlet.as_ref()?.only_moves())));
        let sole = match (wanted.next(), wanted.next()) {
            (Some((index, true)), None) => Some(index),
            _ => None,
        };
        let mut run = TaskRun {
            id,
            actor: task.actor,
            seat: 0,
            compute: method.map_or(no_method, |method| method.compute),
            info,
            args,
            params,
            gathers,
            brings,
            outlets,
            results,
            sole,
            straight: None,
            fault: None,
            collective: None,
        };
        run.straight = method.and_then(|_| Straight::of(&run));
        Ok(run)
    }
}

/// Stands in the place of the method of a rank, which is never called.
fn no_method(_: &mut ActorState, _: &mut Frame<'_>) -> Result<(), Box<Failure>> {
    Err(Box::new(Failure::Internal(
        "a rank of a collective has no method".into(),
    )))
}
