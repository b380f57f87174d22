//! The straight line of a task: its READs, its COMPUTE and its WRITE in one go, from [`TaskState::Begun`] to
//! [`TaskState::Done`].
//!
//! A task has a straight line if it has one outlet, to which publishing runs no user code, and its arguments need no
//! preparation. The line ends early, in the state that the task has reached, when anything out of the ordinary happens:
//! an input is missing, the execution is cancelled, a method fails, an output has no free slot. `advance` goes on from
//! there.
//!
//! Most tasks have one argument and one result. The loader determines where the argument lies and where the result
//! goes, and a lane does a sequence of such tasks in one loop. Three questions remain for each task: whether its
//! execution has been cancelled, whether its argument has arrived, and whether there is room for its result.

use selvedge_channels::{AnyOutlet, AnyValue, Arrival, ChannelError, Readiness};
use selvedge_core::{AsyncDriver, Failure, Frame, Operands, ValueIx};

use super::{Broken, TaskRun, TaskState};
use crate::ir::TaskId;
use crate::run::actor_set::ActorSet;
use crate::run::control::{Cancels, Phase, ProgressAt};
use crate::run::report::fault_of;
use crate::run::trace::Recorder;

/// The kinds of straight lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Straight {
    /// One argument and one result.
    One(OneToOne),
    /// Any number of arguments.
    Many,
}

/// The ends of a task with one argument and one result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OneToOne {
    /// The argument.
    pub(super) from: ValueIx,
    /// The value that the result goes to, if it goes to one value of the same lane and nowhere else.
    to: Option<ValueIx>,
    /// True if the previous task of the stretch writes this task's argument.
    follows: bool,
}

impl Straight {
    /// The straight line of a task with a method, if it has one.
    pub(crate) fn of(task: &TaskRun) -> Option<Self> {
        let outlet = task.outlets.get(task.sole?)?.as_ref()?;
        if !task.gathers.is_empty() || !task.brings.is_empty() || task.beside.is_some() {
            return None;
        }
        let to = outlet.within().map(ValueIx);
        Some(match (task.args.as_slice(), task.params.as_slice()) {
            ([from], [param]) if from == param && task.sole == Some(0) && to != Some(*from) => {
                Straight::One(OneToOne {
                    from: *from,
                    to,
                    follows: false,
                })
            }
            _ => Straight::Many,
        })
    }

    /// Records that the task comes right after `before` in a stretch.
    pub(crate) fn come_after(&mut self, before: Option<Straight>) {
        if let (Straight::One(this), Some(Straight::One(before))) = (self, before) {
            this.follows = before.to == Some(this.from);
        }
    }
}

impl OneToOne {
    /// Prepares the frame of one computation; `None` if its local destination is not empty.
    #[inline]
    fn frame<'a>(
        self,
        values: &'a mut [Box<dyn AnyValue>],
        outlets: &'a mut [Option<Box<dyn AnyOutlet>>],
        driver: &'a AsyncDriver,
        execution: u64,
    ) -> Option<Frame<'a>> {
        let Some(to) = self.to else {
            let argument = values.get_mut(self.from.0)?.as_mut();
            let outlet = outlets.first_mut()?.as_mut()?.as_mut();
            let operands = Operands::ToOutlet { argument, outlet };
            return Some(Frame::new(operands, driver, execution));
        };
        let [argument, local] = values.get_disjoint_mut([self.from.0, to.0]).ok()?;
        if !local.is_empty() {
            return None;
        }
        let (argument, local) = (argument.as_mut(), local.as_mut());
        Some(Frame::new(
            Operands::ToLocal { argument, local },
            driver,
            execution,
        ))
    }
}

/// Receives an input. A fault and an error both leave the straight line: `advance` meets them again.
#[inline]
fn input(values: &mut [Box<dyn AnyValue>], index: ValueIx, execution: u64) -> Arrival {
    values.get_mut(index.0).map_or(Arrival::Fault, |value| {
        if value.is_there(execution) || value.try_receive(execution) {
            return Arrival::Value;
        }
        arrival(value.as_mut(), execution)
    })
}

#[inline(never)]
fn arrival(value: &mut dyn AnyValue, execution: u64) -> Arrival {
    value.receive(execution).unwrap_or(Arrival::Fault)
}

/// Receives all inputs of a task. If one of several has not arrived, the straight line ends, because another may be a
/// fault.
#[inline]
fn inputs(values: &mut [Box<dyn AnyValue>], task: &TaskRun, execution: u64) -> Arrival {
    if let [only] = task.args.as_slice() {
        return input(values, *only, execution);
    }
    let mut inputs = task.args.iter();
    if inputs.all(|index| input(values, *index, execution) == Arrival::Value) {
        Arrival::Value
    } else {
        Arrival::Fault
    }
}

#[inline]
fn read_done(values: &mut [Box<dyn AnyValue>], index: ValueIx, task: TaskId) -> Result<(), Box<Broken>> {
    let value = values
        .get_mut(index.0)
        .ok_or_else(|| Broken::at(task, ChannelError::NoValue))?;
    if value.try_read_done() {
        return Ok(());
    }
    release(value.as_mut(), task)
}

#[inline(never)]
fn release(value: &mut dyn AnyValue, task: TaskId) -> Result<(), Box<Broken>> {
    value.read_done().map_err(|error| Broken::at(task, error))
}

#[inline]
fn reads_done(values: &mut [Box<dyn AnyValue>], task: &TaskRun) -> Result<(), Box<Broken>> {
    // Most tasks have one argument, and a loop around it costs as much as the read itself.
    if let [only] = task.args.as_slice() {
        return read_done(values, *only, task.id);
    }
    let mut args = task.args.iter();
    args.try_for_each(|index| read_done(values, *index, task.id))
}

/// The part of a straight line that is the same for all tasks of one execution.
pub(super) struct Lap<'a> {
    pub(super) execution: u64,
    pub(super) driver: &'a AsyncDriver,
    pub(super) progress: ProgressAt<'a>,
    pub(super) cancels: Cancels<'a>,
    pub(super) traced: bool,
}

/// Goes along the straight line of a task; returns the state that the task has reached. `one` are the ends of a task
/// with one argument and one result. `second` is true if another task of the same stretch was done right before.
#[inline(always)]
pub(super) fn go<C: ActorSet + ?Sized>(
    task: &mut TaskRun,
    one: Option<OneToOne>,
    second: bool,
    values: &mut [Box<dyn AnyValue>],
    actors: &mut C,
    recorder: &mut Recorder,
    lap: &Lap<'_>,
) -> Result<TaskState, Box<Broken>> {
    let execution = lap.execution;
    if lap.cancels.is_cancelled() {
        return Ok(TaskState::Begun);
    }
    // A value that the previous task has written is there.
    if !(second && one.is_some_and(|one| one.follows)) {
        let arrival = match one {
            Some(one) => input(values, one.from, execution),
            None => inputs(values, task, execution),
        };
        match arrival {
            Arrival::Value => {}
            Arrival::Nothing => return Ok(TaskState::Waiting),
            Arrival::Fault => return Ok(TaskState::Begun),
        }
    }
    let mut frame = match one {
        Some(one) => match one.frame(values, &mut task.outlets, lap.driver, execution) {
            Some(frame) => frame,
            None => return Ok(TaskState::Begun),
        },
        None => {
            let operands = Operands::ByPosition {
                values,
                params: &task.params,
                outlets: task.outlets.get_mut(..task.results).unwrap_or_default(),
                at_once: true,
            };
            Frame::new(operands, lap.driver, execution)
        }
    };
    // From here on the task runs to its end.
    if lap.traced {
        recorder.open(task.id, execution, second);
    }
    lap.progress.set(task.id.0, Phase::Computing);
    let computed = actors.compute(&mut task.seat, task.actor, task.compute, &mut frame);
    let handed_over = frame.has_handed_over();
    if computed.is_ok() && handed_over && frame.count_read() {
        if lap.traced {
            recorder.close(task.id, true);
        }
        return Ok(TaskState::Done);
    }
    settle(task, values, recorder, execution, computed, handed_over)
}

/// Completes a task whose method has returned, if the task is not done yet: releases its inputs and publishes its
/// result.
#[inline(never)]
fn settle(
    task: &mut TaskRun,
    values: &mut [Box<dyn AnyValue>],
    recorder: &mut Recorder,
    execution: u64,
    computed: Result<(), Box<Failure>>,
    handed_over: bool,
) -> Result<TaskState, Box<Broken>> {
    let failed = computed.is_err();
    let published = match computed {
        Err(failure) => fail(task, values, execution, *failure, handed_over),
        Ok(()) => {
            if !handed_over {
                task.stage_signal();
            }
            handed_over
        }
    };
    // Before the result can be seen: a thread that has the result may write the next input (`LOOP-5`). If the result is
    // published already, only this lane sees it, or no slot had to be released before it.
    let reached = reads_done(values, task).and_then(|()| {
        if published {
            Ok(TaskState::Done)
        } else {
            publish_sole(task, values, execution)
        }
    });
    if recorder.is_on() {
        recorder.close(task.id, matches!(reached, Ok(TaskState::Done)));
    }
    reached.map(|reached| match reached {
        TaskState::Done if failed => TaskState::Failed,
        reached => reached,
    })
}

/// Stages the failure of a task's method; returns `true` if the method's result has been published all the same. The
/// method may have handed over a result before it failed. That result is withdrawn, unless other lanes have seen it.
#[cold]
fn fail(
    task: &mut TaskRun,
    values: &mut [Box<dyn AnyValue>],
    execution: u64,
    failure: Failure,
    handed_over: bool,
) -> bool {
    let local = task.sole().and_then(|outlet| outlet.within());
    match local.and_then(|local| values.get_mut(local)) {
        Some(local) => drop(local.release()),
        None if handed_over => return true,
        None => {}
    }
    let fault = fault_of(&task.info, execution, failure);
    if let Some(outlet) = task.sole() {
        outlet.stage_fault(fault);
    }
    false
}

/// Publishes the staged result of a task with one outlet. The task stays [`TaskState::Computed`] if it has no such
/// outlet, or if the outlet has no value or refuses it.
pub(super) fn publish_sole(
    task: &mut TaskRun,
    values: &mut [Box<dyn AnyValue>],
    execution: u64,
) -> Result<TaskState, Box<Broken>> {
    let id = task.id;
    let Some(outlet) = task.sole() else {
        return Ok(TaskState::Computed);
    };
    match outlet.publish(execution, values) {
        Ok(Readiness::Ready) => Ok(TaskState::Done),
        Ok(Readiness::Blocked) => Ok(TaskState::Writing),
        Err(ChannelError::NoValue) => Ok(TaskState::Computed),
        Err(error) if error.refuses_value() => Ok(TaskState::Computed),
        Err(error) => Err(Broken::at(id, error)),
    }
}
