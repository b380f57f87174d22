//! The payload types of values: from the link-time registry of actors.

use selvedge_channels::PayloadType;
use selvedge_core::{MethodEntry, find_method};

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

fn method_of(plan: &Plan, task: TaskId) -> Option<&'static MethodEntry> {
    let task = plan.ir.tasks.get(task.0 as usize)?;
    let actor = plan.ir.actors.iter().find(|actor| actor.id == task.actor)?;
    find_method(&actor.type_name, task.extension.as_deref(), task.method).ok()?
}

/// The value that a rank of a collective contributes; the result has the same type.
fn contributed(plan: &Plan, task: TaskId) -> Option<ValueId> {
    let task = plan.ir.task(task).filter(|task| task.collective.is_some())?;
    GraphIr::reads(task).next().map(|(_, value)| value)
}

/// The payload type of a value, from the link-time registry: found through its producer, else through a consumer.
pub(super) fn registered_payload(plan: &Plan, value: ValueId) -> Option<PayloadType> {
    let ir = plan.ir.values.get(value.0 as usize)?;
    if ir.signal {
        return Some(PayloadType::of::<()>());
    }
    if let Origin::Task(task) = ir.origin {
        if let Some(brought) = contributed(plan, task) {
            return registered_payload(plan, brought);
        }
        let method = method_of(plan, task)?;
        return match ir.part {
            None => Some((method.result)()),
            Some(part) => (method.parts)().get(usize::from(part)).copied(),
        };
    }
    let mut named = plan.ir.tasks.iter().enumerate().filter_map(|(index, task)| {
        let position = task.args.iter().position(|arg| *arg == ArgIr::Value(value))?;
        argument_type(task, method_of(plan, TaskId(index as u32))?, position as u32)
    });
    // A generic actor may know less of the type than another reader.
    let first = named.next()?;
    if first.is_wire() {
        return Some(first);
    }
    Some(named.find(PayloadType::is_wire).unwrap_or(first))
}

/// The type of argument number `position` of a task: the type of a parameter, or of an element of a list parameter.
pub(crate) fn argument_type(task: &TaskIr, method: &MethodEntry, position: u32) -> Option<PayloadType> {
    let position = position as usize;
    if task.groups.is_empty() {
        return Some((method.params.get(position)?.payload)());
    }
    let mut left = position;
    for (group, param) in task.groups.iter().zip(method.params) {
        if let Some(depth) = depth_of(group, &mut left) {
            let levels = (param.lists)();
            let element = |depth: usize| levels.get(depth).map(|level| level.element);
            return depth
                .checked_sub(1)
                .map_or_else(|| Some((param.payload)()), element);
        }
    }
    None
}

/// The number of lists around argument number `left` of this group, counted from 0. If the group has fewer arguments,
/// returns `None` and subtracts their number from `left`.
fn depth_of(group: &ir::ArgGroup, left: &mut usize) -> Option<usize> {
    match group {
        ir::ArgGroup::One if *left == 0 => Some(0),
        ir::ArgGroup::One => {
            *left -= 1;
            None
        }
        ir::ArgGroup::List(members) => members
            .iter()
            .find_map(|member| depth_of(member, left))
            .map(|depth| depth + 1),
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
