//! The states of a task, one transition at a time: `Begun → Ready → Computed → Done`, with a state for each wait.

use selvedge_channels::{Arrival, Fault};
use selvedge_core::Failure;

use super::straight::publish_sole;
use super::work::{invoke, invoke_prepared, publish};
use super::{Broken, LaneError, LaneLoop, Moved, TaskRun, TaskState};
use crate::ir::OpKind;
use crate::run::actor_set::ActorSet;
use crate::run::control::Phase;
use crate::run::ranks::{Part, release_inputs};
use crate::run::report::fault_of;
use crate::run::table::TaskIx;

impl LaneLoop {
    /// Makes one transition of a task. Advances past the task when it has reached the state `until`, in a step of `len`
    /// tasks.
    pub(super) fn advance<C: ActorSet + ?Sized>(
        &mut self,
        actors: &mut C,
        index: TaskIx,
        until: TaskState,
        len: usize,
    ) -> Result<Moved, Box<Broken>> {
        let reached = match self.state.task {
            TaskState::Begun | TaskState::Waiting => self.await_inputs(index)?,
            TaskState::Ready | TaskState::Queued | TaskState::GaveUp => self.work(index, actors)?,
            _ => self.write(index)?,
        };
        if reached >= until && !reached.is_blocked() {
            self.state.pass(1, len, self.steps.len());
            return Ok(Moved::Advanced);
        }
        self.state.task = reached;
        Ok(if reached.is_blocked() {
            Moved::Blocked
        } else {
            Moved::Advanced
        })
    }

    /// READs: waits for inputs that arrive in any order (RW-03).
    fn await_inputs(&mut self, index: TaskIx) -> Result<TaskState, Box<Broken>> {
        let execution = self.state.execution;
        let task = self.tasks.at_mut(index)?;
        self.state.forgone.skip(&task.args, execution);
        let mut missing = false;
        for value in &task.args {
            let value = self.values.at_mut(*value)?;
            match value.receive(execution) {
                Ok(Arrival::Value) => {}
                Ok(Arrival::Nothing) => missing = true,
                Ok(Arrival::Fault) if task.fault.is_some() => {}
                Ok(Arrival::Fault) => task.fault = value.fault(),
                Err(error) => return Err(Broken::at(task.id, error)),
            }
        }
        if missing && task.fault.is_none() {
            // A cancelled task does not wait for its inputs.
            if !self.control.is_cancelled(execution) {
                self.progress.at(execution).set(task.id.0, Phase::Reading);
                return Ok(TaskState::Waiting);
            }
            task.fault = Some(Fault::cancelled());
        }
        if self.recorder.is_on() {
            let reads = (0..task.args.len() as u32).map(|arg| OpKind::Read { arg });
            self.recorder.record(task.id, reads, execution);
        }
        Ok(if missing {
            TaskState::GaveUp
        } else {
            TaskState::Ready
        })
    }

    /// COMPUTE or COLLECTIVE: runs the method, or posts the task's part.
    fn work<C: ActorSet + ?Sized>(
        &mut self,
        index: TaskIx,
        actors: &mut C,
    ) -> Result<TaskState, Box<Broken>> {
        let execution = self.state.execution;
        let task = self.tasks.at_mut(index)?;
        if task.fault.is_none() && self.control.is_cancelled(execution) {
            task.fault = Some(Fault::cancelled());
        }
        if task.beside.is_some() && !self.may_begin(index, actors)? {
            let task = self.tasks.at(index)?;
            self.progress.at(execution).set(task.id.0, Phase::Computing);
            return Ok(TaskState::Queued);
        }
        let task = self.tasks.at_mut(index)?;
        let (id, kind) = if task.collective.is_some() {
            (task.id, self.post(index)?)
        } else {
            (task.id, self.compute(index, actors)?)
        };
        self.recorder.record(id, std::iter::once(kind), execution);
        Ok(TaskState::Computed)
    }

    fn compute<C: ActorSet + ?Sized>(
        &mut self,
        index: TaskIx,
        actors: &mut C,
    ) -> Result<OpKind, Box<Broken>> {
        let execution = self.state.execution;
        let task = self.tasks.at_mut(index)?;
        if task.fault.is_none() {
            self.progress.at(execution).set(task.id.0, Phase::Computing);
            let invoked = if task.gathers.is_empty() && task.brings.is_empty() {
                invoke(task, &mut self.values, &self.driver, actors, execution)
            } else {
                invoke_prepared(task, &mut self.values, &self.driver, actors, execution)
            };
            if let Err(failure) = invoked {
                task.fault = Some(fault_of(&task.info, execution, *failure));
            }
        }
        let (id, overlaps) = (task.id, task.overlaps());
        if overlaps {
            task.queue_fault(execution);
            self.posts();
        } else {
            task.stage_fault();
        }
        self.release_inputs(index)
            .map_err(|error| Broken::at(id, error))?;
        Ok(OpKind::Compute)
    }

    /// Leaves the task's part in a collective to the lane's rank, which begins it as soon as the earlier parts are
    /// over, and releases the input afterwards.
    fn post(&mut self, index: TaskIx) -> Result<OpKind, Box<Broken>> {
        let execution = self.state.execution;
        let gave_up = self.state.task == TaskState::GaveUp;
        if gave_up {
            self.release_inputs(index)?;
        }
        let task = self.tasks.at_mut(index)?;
        if let Some(collective) = &mut task.collective {
            collective.part = Part::Posted;
            let rank = self.ranks.at_mut(collective.rank)?;
            rank.post(index, execution, !gave_up);
            rank.advance(&mut self.tasks, &mut self.values)?;
        }
        Ok(OpKind::Collective)
    }

    /// Marks this task's reads as done; reads whose value has not arrived are forgone (`LOOP-3`).
    fn release_inputs(&mut self, index: TaskIx) -> Result<(), LaneError> {
        let task = self.tasks.at(index)?;
        if self.state.task == TaskState::GaveUp {
            for value in &task.args {
                self.state.forgone.add(*value, self.state.execution);
            }
            return self.state.forgone.drain(&mut self.values);
        }
        release_inputs(task, &mut self.values)
    }

    /// WRITE: to all outputs of the task or to none (RW-13).
    fn write(&mut self, index: TaskIx) -> Result<TaskState, Box<Broken>> {
        let execution = self.state.execution;
        let task = self.tasks.at_mut(index)?;
        let progress = self.progress.at(execution);
        if let Some(beside) = &task.beside
            && beside.overlap().is_some()
        {
            let holds_up = beside.holds_up();
            return Ok(if holds_up {
                TaskState::Meeting
            } else {
                TaskState::Done
            });
        }
        if let Some(collective) = &task.collective
            && collective.part == Part::Posted
        {
            progress.set(task.id.0, Phase::Meeting);
            return Ok(TaskState::Meeting);
        }
        let reached = if self.recorder.is_on() {
            TaskState::Computed
        } else {
            // A single outlet publishes all or nothing by itself, and no event has to be recorded.
            publish_sole(task, &mut self.values, execution)?
        };
        let reached = match reached {
            TaskState::Computed => {
                let waited = self.state.task == TaskState::Writing;
                self.write_all(index, execution, waited)?
            }
            reached => reached,
        };
        if reached == TaskState::Writing {
            let task = self.tasks.at(index)?;
            self.progress.at(execution).set(task.id.0, Phase::Writing);
        }
        Ok(reached)
    }

    /// Writes what is staged to all outputs, or to none. `waited` is true if an output had no free slot before.
    pub(super) fn write_all(
        &mut self,
        index: TaskIx,
        execution: u64,
        waited: bool,
    ) -> Result<TaskState, Box<Broken>> {
        let TaskRun {
            id, outlets, info, ..
        } = self.tasks.at_mut(index)?;
        for outlet in outlets.iter_mut().flatten() {
            if !outlet.is_staged() {
                let failure = Failure::Internal("the method left an output without a value".into());
                outlet.stage_fault(fault_of(info, execution, failure));
            }
            if !outlet.has_space().map_err(|error| Broken::at(*id, error))? {
                return Ok(TaskState::Writing);
            }
        }
        // Recorded before the result can be seen, so that a thread that has the result finds the event too.
        if waited {
            self.recorder
                .record(*id, std::iter::once(OpKind::Write), execution);
        } else {
            self.recorder.record_at_once(*id, OpKind::Write, execution);
        }
        for outlet in outlets.iter_mut().flatten() {
            publish(outlet.as_mut(), info, execution, &mut self.values)
                .map_err(|error| Broken::at(*id, error))?;
        }
        Ok(TaskState::Done)
    }
}
