//! The work of a task: runs its method and publishes its result. Catches the panics of user code.

use std::panic::{AssertUnwindSafe, catch_unwind};

use selvedge_channels::{AnyOutlet, AnyValue, ChannelError};
use selvedge_core::{AsyncDriver, Failure, Frame, Operands};

use super::bring::{BringRun, bring};
use super::{GatherRun, TaskRun};
use crate::run::actor_set::ActorSet;
use crate::run::report::{Cause, TaskInfo, fault_with};

/// Runs a task's method, or begins it if it overlaps with others.
#[inline]
pub(super) fn invoke<C: ActorSet + ?Sized>(
    task: &mut TaskRun,
    values: &mut [Box<dyn AnyValue>],
    driver: &AsyncDriver,
    actors: &mut C,
    execution: u64,
) -> Result<(), Box<Failure>> {
    let operands = Operands::ByPosition {
        values,
        params: &task.params,
        outlets: task.outlets.get_mut(..task.results).unwrap_or_default(),
        at_once: false,
    };
    let mut frame = Frame::new(operands, driver, execution);
    if let Some(beside) = &mut task.beside
        && let Some(overlap) = beside.overlap()
    {
        // User code runs here: `Clone`.
        let arguments = Failure::catch(|| (overlap.take)(&mut frame).map_err(|failure| *failure))?;
        let flight = actors.fly(task.actor, &overlap, arguments, beside.cancellation(execution))?;
        beside.push_flight(execution, flight);
        return Ok(());
    }
    actors.compute(&mut task.seat, task.actor, task.compute, &mut frame)?;
    task.stage_signal();
    Ok(())
}

/// Runs a task's method after its arguments were brought to the actor's device and assembled into lists.
pub(super) fn invoke_prepared<C: ActorSet + ?Sized>(
    task: &mut TaskRun,
    values: &mut [Box<dyn AnyValue>],
    driver: &AsyncDriver,
    actors: &mut C,
    execution: u64,
) -> Result<(), Box<Failure>> {
    let invoked = bring(task, values, execution)
        .and_then(|()| put_together(&task.gathers, values, execution))
        .map_err(Box::new)
        .and_then(|()| invoke(task, values, driver, actors, execution));
    let lists = task.gathers.iter().map(|list| list.into);
    for into in lists.chain(task.brings.iter().map(BringRun::into)) {
        if let Some(value) = values.get_mut(into.0) {
            let _ = value.release();
        }
    }
    invoked
}

/// Assembles a task's lists. Elements that others read too are cloned, which runs user code.
fn put_together(
    lists: &[GatherRun],
    values: &mut [Box<dyn AnyValue>],
    execution: u64,
) -> Result<(), Failure> {
    Failure::catch(|| {
        let mut lists = lists.iter();
        lists.try_for_each(|list| (list.gather)(values, &list.members, list.into, execution))
    })
}

/// Publishes a staged message. A value that cannot be sent is the task's failure, not the graph's, even if its own
/// `Serialize` or `Clone` panics: nothing has been published in that case.
pub(crate) fn publish(
    outlet: &mut dyn AnyOutlet,
    info: &TaskInfo,
    execution: u64,
    values: &mut [Box<dyn AnyValue>],
) -> Result<(), ChannelError> {
    let published = if outlet.only_moves() {
        Ok(outlet.publish(execution, values))
    } else {
        catch_unwind(AssertUnwindSafe(|| outlet.publish(execution, values)))
    };
    let cause = match published {
        Ok(Err(error)) if error.refuses_value() => Cause::of_refusal(error),
        Ok(published) => return published.map(|_| ()),
        Err(payload) => Cause::of_panic(payload),
    };
    outlet.stage_fault(fault_with(info, execution, cause));
    outlet.publish(execution, values).map(|_| ())
}
