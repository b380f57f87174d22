//! A plain task in one go: its READs, its COMPUTE and its WRITE, where nothing is out of the ordinary.

use selvedge_channels::{AnyValue, Arrival, ChannelError, Readiness};
use selvedge_core::{Failure, Invocation};

use super::work::say_done;
use super::{Broken, LaneLoop, broken};
use crate::ir::TaskId;
use crate::run::clock::ticks;
use crate::run::control::Phase;
use crate::run::crew::Crew;
use crate::run::report::fault_of;

/// What became of a task that was to run in one go.
pub(super) enum Ran {
    /// It has run, and its result is on its way.
    Done,
    /// It has run; its WRITE is still to be done.
    Computed,
    /// Its inputs have not all come, and nothing has changed since it was looked last.
    Blocked,
    /// Something is out of the ordinary, which the steps one by one are for: nothing has changed.
    Otherwise,
    /// The graph cannot go on.
    Broken(Box<Broken>),
}

/// What has come of a value; `None` where its channel has something to say.
#[inline(never)]
fn arrival(value: &mut dyn AnyValue, execution: u64) -> Option<Arrival> {
    value.fill(execution).ok()
}

#[inline(never)]
fn give_back(value: &mut dyn AnyValue, task: TaskId) -> Result<(), Box<Broken>> {
    value.read_done().map_err(|error| broken(task, error))
}

impl LaneLoop {
    /// Does a task whose inputs have all come.
    #[inline]
    pub(super) fn run<C: Crew + ?Sized>(&mut self, index: usize, crew: &mut C) -> Ran {
        let execution = self.state.execution;
        let Some(task) = self.tasks.get_mut(index) else {
            return Ran::Otherwise;
        };
        if !self.state.forgone.is_empty() || self.control.is_cancelled(execution) {
            return Ran::Otherwise;
        }
        for value in &task.args {
            let Some(value) = self.values.get_mut(*value) else {
                return Ran::Otherwise;
            };
            if value.is_there(execution) || value.arrives(execution) {
                continue;
            }
            match arrival(value.as_mut(), execution) {
                Some(Arrival::Value) => {}
                // Its only input: there is no fault to look for beside it.
                Some(Arrival::Nothing) if self.state.waiting && task.args.len() == 1 => {
                    return Ran::Blocked;
                }
                _ => return Ran::Otherwise,
            }
        }
        let results = task.results.min(task.outlets.len());
        let (results, signal) = task.outlets.split_at_mut(results);
        // From here on it goes to its end.
        let traced = self.recorder.is_on();
        let read = if traced { ticks() } else { 0 };
        task.gave_up = false;
        self.progress.set(execution, task.id.0, Phase::Computing);
        let mut invocation =
            Invocation::new(&mut self.values, &task.params, results, &self.driver).at_once(execution);
        let invoked = crew.invoke(&mut task.seat, task.actor, task.method, &mut invocation);
        let handed_over = invocation.has_handed_over();
        if !handed_over && invoked.is_ok() {
            for signal in signal.iter_mut().flatten() {
                say_done(signal.as_mut());
            }
        }
        // Before the result can be seen: whoever has that may write the next input (`LOOP-5`). What was handed over is seen
        // by this lane alone.
        for value in &task.args {
            if let Some(value) = self.values.get_mut(*value)
                && !value.count_read()
                && let Err(broken) = give_back(value.as_mut(), task.id)
            {
                return Ran::Broken(broken);
            }
        }
        if traced {
            // Before the result can be seen, so that whoever has it finds the event too.
            self.recorder
                .record_run(task.id, task.args.len(), execution, read);
        }
        if handed_over && invoked.is_ok() {
            return Ran::Done;
        }
        self.publish_sole(index, invoked)
    }

    /// Publishes what a plain task's method has staged, or its failure.
    #[inline]
    fn publish_sole(&mut self, index: usize, invoked: Result<(), Box<Failure>>) -> Ran {
        let execution = self.state.execution;
        let Some(task) = self.tasks.get_mut(index) else {
            return Ran::Computed;
        };
        let outlet = task.sole.and_then(|sole| task.outlets.get_mut(sole)?.as_mut());
        let Some(outlet) = outlet else {
            return Ran::Computed;
        };
        if let Err(failure) = invoked {
            // It may have handed over a result and failed then: that was none.
            if let Some(local) = outlet.within().and_then(|local| self.values.get_mut(local)) {
                let _ = local.abandon();
            }
            outlet.stage_fault(fault_of(&task.info, execution, *failure));
        }
        let published = outlet.publish(execution, &mut self.values);
        if self.recorder.is_on() && !matches!(published, Ok(Readiness::Ready)) {
            self.recorder.retract_write();
        }
        match published {
            Ok(Readiness::Ready) => Ran::Done,
            // The WRITE waits for room, or says that there is no value.
            Ok(Readiness::Blocked) | Err(ChannelError::NoValue) => Ran::Computed,
            Err(error) => Ran::Broken(broken(task.id, error)),
        }
    }
}
