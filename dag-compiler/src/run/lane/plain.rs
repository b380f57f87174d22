//! Plain tasks: the fast path that does the READs, the COMPUTE and the WRITE of a task in one go.

use selvedge_channels::{AnyOutlet, AnyValue, Arrival, ChannelError, Readiness};
use selvedge_core::{Failure, Frame, Operands};

use super::{Broken, LaneLoop, STEPS, TaskRun, broken};
use crate::ir::TaskId;
use crate::run::actor_set::ActorSet;
use crate::run::control::Phase;
use crate::run::report::fault_of;
use crate::run::trace::Ended;

/// The outcome of a task that was to run in one go.
pub(super) enum Ran {
    /// The task has run, and its result is published.
    Done,
    /// The task has run; its WRITE is still to be done.
    Computed,
    /// Not all inputs have arrived, and nothing has changed since the last look.
    Blocked,
    /// The fast path does not apply, so the steps run one by one; nothing has changed.
    Otherwise,
    /// The graph cannot go on.
    Broken(Box<Broken>),
}

impl Ran {
    #[inline]
    pub(super) fn ended(&self) -> Ended {
        match self {
            Ran::Done => Ended::Written,
            _ => Ended::Computed,
        }
    }
}

/// The state of an input.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    There,
    NotYet,
    /// A fault, or an error of the input's channel.
    Otherwise,
}

#[inline]
pub(super) fn input(values: &mut [Box<dyn AnyValue>], index: usize, execution: u64) -> Input {
    let Some(value) = values.get_mut(index) else {
        return Input::Otherwise;
    };
    if value.is_there(execution) || value.arrives(execution) {
        return Input::There;
    }
    arrival(value.as_mut(), execution)
}

#[inline(never)]
fn arrival(value: &mut dyn AnyValue, execution: u64) -> Input {
    match value.fill(execution) {
        Ok(Arrival::Value) => Input::There,
        Ok(Arrival::Nothing) => Input::NotYet,
        _ => Input::Otherwise,
    }
}

/// The state of all inputs of a task. If one of several has not arrived, the fast path does not apply, because another
/// may be a fault.
#[inline]
fn inputs(values: &mut [Box<dyn AnyValue>], task: &TaskRun, execution: u64) -> Input {
    if let [only] = task.args.as_slice() {
        return input(values, *only, execution);
    }
    let mut inputs = task.args.iter().map(|index| input(values, *index, execution));
    let first = inputs.find(|input| *input != Input::There);
    first.map_or(Input::There, |_| Input::Otherwise)
}

#[inline]
fn read_done(values: &mut [Box<dyn AnyValue>], index: usize, task: TaskId) -> Result<(), Box<Broken>> {
    let Some(value) = values.get_mut(index) else {
        return Ok(());
    };
    if value.count_read() {
        return Ok(());
    }
    give_back(value.as_mut(), task)
}

#[inline(never)]
fn give_back(value: &mut dyn AnyValue, task: TaskId) -> Result<(), Box<Broken>> {
    value.read_done().map_err(|error| broken(task, error))
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

impl LaneLoop {
    /// Does the task of this step if its inputs have all arrived, and advances past it. For a hop, also does the hops
    /// that follow, as far as the fast path applies. If no task is done, returns the outcome of the first. A later task
    /// that is blocked, or to which the fast path does not apply, is left to the next step.
    #[inline]
    pub(super) fn run<C: ActorSet + ?Sized>(&mut self, crew: &mut C, first: usize) -> Ran {
        if !self.state.forgone.is_empty() {
            return Ran::Otherwise;
        }
        let hop = self.tasks.get(first).and_then(|task| task.hop);
        let (done, ran) = match hop {
            Some(hop) => self.hops(crew, first, hop.stretch),
            None => self.plain(crew, first),
        };
        if done == 0 {
            if let Ran::Blocked = ran {
                self.begin_to_wait(first);
            }
            return ran;
        }
        self.pass(STEPS * done);
        match ran {
            Ran::Blocked | Ran::Otherwise => Ran::Done,
            ran => ran,
        }
    }

    /// Records that a task waits for its inputs.
    #[inline]
    fn begin_to_wait(&mut self, index: usize) {
        if self.state.waiting {
            return;
        }
        if let Some(task) = self.tasks.get_mut(index) {
            (task.fault, task.gave_up) = (None, false);
            self.state.waiting = true;
            let progress = self.progress.at(self.state.execution);
            progress.set(task.id.0, Phase::Reading);
        }
    }

    /// Does one task with any number of arguments; returns the number of tasks done and the outcome.
    #[inline(never)]
    fn plain<C: ActorSet + ?Sized>(&mut self, crew: &mut C, index: usize) -> (usize, Ran) {
        let execution = self.state.execution;
        let Some(task) = self.tasks.get_mut(index) else {
            return (0, Ran::Otherwise);
        };
        let values = self.values.as_mut_slice();
        if self.control.is_cancelled(execution) {
            return (0, Ran::Otherwise);
        }
        match inputs(values, task, execution) {
            Input::There => {}
            Input::NotYet => return (0, Ran::Blocked),
            Input::Otherwise => return (0, Ran::Otherwise),
        }
        // From here on the task runs to its end.
        let traced = self.recorder.is_on();
        if traced {
            self.recorder.open(task.id, execution, false);
        }
        task.gave_up = false;
        self.progress.at(execution).set(task.id.0, Phase::Computing);
        let results = task.outlets.get_mut(..task.results).unwrap_or_default();
        let operands = Operands::ByPosition {
            values,
            params: &task.params,
            outlets: results,
            at_once: true,
        };
        let mut frame = Frame::new(operands, &self.driver, execution);
        let invoked = crew.compute(&mut task.seat, task.actor, task.compute, &mut frame);
        let handed_over = frame.has_handed_over();
        let ran = settle(task, values, execution, invoked, handed_over);
        if traced {
            self.recorder.close(task.id, ran.ended());
        }
        (usize::from(matches!(ran, Ran::Done)), ran)
    }
}

/// Completes a task whose method has returned: releases its inputs and publishes its result.
pub(super) fn settle(
    task: &mut TaskRun,
    values: &mut [Box<dyn AnyValue>],
    execution: u64,
    invoked: Result<(), Box<Failure>>,
    handed_over: bool,
) -> Ran {
    match invoked {
        // Only this lane sees the result, or no slot had to be released before it (`LOOP-5`).
        Ok(()) if handed_over => reads_done(values, task).map_or_else(Ran::Broken, |()| Ran::Done),
        Ok(()) => {
            task.say_done();
            publish_sole(task, values, execution)
        }
        Err(failure) => publish_failure(task, values, execution, *failure, handed_over),
    }
}

/// Publishes the failure of a plain task's method.
#[cold]
fn publish_failure(
    task: &mut TaskRun,
    values: &mut [Box<dyn AnyValue>],
    execution: u64,
    failure: Failure,
    handed_over: bool,
) -> Ran {
    // The method may have handed over a result before it failed. That result is withdrawn, unless other lanes have seen
    // it.
    let local = sole(task).and_then(|outlet| outlet.within());
    match local.and_then(|local| values.get_mut(local)) {
        Some(local) => drop(local.abandon()),
        None if handed_over => return reads_done(values, task).map_or_else(Ran::Broken, |()| Ran::Done),
        None => {}
    }
    let fault = fault_of(&task.info, execution, failure);
    if let Some(outlet) = sole(task) {
        outlet.stage_fault(fault);
    }
    publish_sole(task, values, execution)
}

#[inline]
fn sole(task: &mut TaskRun) -> Option<&mut dyn AnyOutlet> {
    let outlet = task.outlets.get_mut(task.sole?)?;
    Some(outlet.as_mut()?.as_mut())
}

fn publish_sole(task: &mut TaskRun, values: &mut [Box<dyn AnyValue>], execution: u64) -> Ran {
    // Before the result can be seen: a thread that has the result may write the next input (`LOOP-5`).
    if let Err(broken) = reads_done(values, task) {
        return Ran::Broken(broken);
    }
    let id = task.id;
    let Some(outlet) = sole(task) else {
        return Ran::Computed;
    };
    match outlet.publish(execution, values) {
        Ok(Readiness::Ready) => Ran::Done,
        // The WRITE step waits for room, or reports that there is no value or that the value cannot be written.
        Ok(Readiness::Blocked) | Err(ChannelError::NoValue) => Ran::Computed,
        Err(error) if error.refuses_value() => Ran::Computed,
        Err(error) => Ran::Broken(broken(id, error)),
    }
}
