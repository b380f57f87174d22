//! Tasks whose methods overlap: an `async fn` with `&self`, of an actor with a concurrency of more than 1.
//!
//! Such a task is posted, as the part in a collective is: its method begins with arguments of its own, the inputs are
//! released, and the lane goes on, also to the next executions. Its result is written later. The lane advances posted
//! tasks at every step and whenever it is woken; the futures themselves belong to the lane's host.
//!
//! - `LOOP-6` the results of a task are written in the order of executions. What has ended early waits in the task's
//!   queue, as do the faults of executions in which the method does not run.
//! - `LOOP-7` a posted task needs nothing of what comes after it in the lane's program, and the lane tries its WRITE as
//!   long as it is not done. So a plan that runs to its end with the WRITE right after the COMPUTE also does so with the
//!   WRITE later. If a task of the same lane reads the result, the lane waits for the WRITE at once.

use selvedge_channels::Fault;
use selvedge_core::{AsyncDriver, Failure, Frame, Operands, Returned, Wanted};

use super::beside::PostedState;
use super::{Broken, LaneLoop, TaskRun, TaskState};
use crate::run::actor_set::ActorSet;
use crate::run::control::Phase;
use crate::run::report::fault_of;
use crate::run::table::TaskIx;

impl TaskRun {
    /// Whether the method overlaps with others.
    pub(crate) fn overlaps(&self) -> bool {
        self.beside
            .as_ref()
            .is_some_and(|beside| beside.overlap().is_some())
    }

    /// Queues the fault of this execution, if there is one.
    pub(super) fn queue_fault(&mut self, execution: u64) {
        if let (Some(beside), Some(fault)) = (&mut self.beside, self.fault.take()) {
            beside.push_fault(execution, fault);
        }
    }

    /// Stages a result of the method, or the failure in its place.
    fn stage_result(&mut self, driver: &AsyncDriver, execution: u64, result: Result<Returned, Failure>) {
        let overlap = self.beside.as_ref().and_then(|beside| beside.overlap());
        let outlets = self.outlets.get_mut(..self.results).unwrap_or_default();
        let staged = result.and_then(|returned| {
            let operands = Operands::ByPosition {
                values: &mut [],
                params: &[],
                outlets,
                at_once: false,
            };
            let mut frame = Frame::new(operands, driver, execution);
            let overlap =
                overlap.ok_or_else(|| Failure::Internal("a task was posted that cannot be".into()))?;
            Failure::catch(|| (overlap.finish)(&mut frame, returned).map_err(|failure| *failure))
        });
        match staged {
            Ok(()) => self.stage_signal(),
            Err(failure) => {
                self.fault = Some(fault_of(&self.info, execution, failure));
                self.stage_fault();
            }
        }
    }
}

impl LaneLoop {
    /// Whether a task may begin whose actor has methods in flight, or may have. A task without a value begins at any
    /// time, because its method does not run.
    pub(super) fn may_begin<C: ActorSet + ?Sized>(
        &mut self,
        index: TaskIx,
        actors: &mut C,
    ) -> Result<bool, Box<Broken>> {
        let task = self.tasks.at(index)?;
        let Some(beside) = &task.beside else {
            return Ok(true);
        };
        if task.fault.is_some() {
            if self.state.task == TaskState::Queued {
                actors.withdraw(task.actor);
            }
            return Ok(true);
        }
        Ok(beside.has_room() && actors.may_run(task.actor, &beside.sharing()))
    }

    /// Counts a task that was posted.
    pub(super) fn posts(&mut self) {
        if self.posted == 0 {
            self.wants.begins();
        }
        self.posted += 1;
    }

    /// Drops the methods in flight that are no longer wanted, and writes the results that have come, in order
    /// (`LOOP-6`).
    pub(super) fn advance_posted<C: ActorSet + ?Sized>(&mut self, actors: &mut C) -> Result<(), Box<Broken>> {
        let posters = std::mem::take(&mut self.posters);
        let mut all = posters.iter();
        let advanced = all.try_for_each(|index| self.advance_poster(*index, actors));
        self.posters = posters;
        advanced?;
        if self.posted == 0 {
            self.wants.ends();
            self.shows_present();
        }
        Ok(())
    }

    fn advance_poster<C: ActorSet + ?Sized>(
        &mut self,
        index: TaskIx,
        actors: &mut C,
    ) -> Result<(), Box<Broken>> {
        self.cancel_posted(index, actors)?;
        while self.write_posted(index, actors)? {
            self.posted -= 1;
        }
        Ok(())
    }

    fn cancel_posted<C: ActorSet + ?Sized>(
        &mut self,
        index: TaskIx,
        actors: &mut C,
    ) -> Result<(), Box<Broken>> {
        let task = self.tasks.at_mut(index)?;
        for posted in task.beside.iter_mut().flat_map(|beside| beside.queue()) {
            if let PostedState::Flying(flight) = posted.state
                && self.control.is_cancelled(posted.execution)
            {
                actors.abandon(flight);
                posted.state = PostedState::Faulty(Fault::cancelled());
            }
        }
        Ok(())
    }

    /// Writes the oldest result of a task, if it has come and there is room; returns whether it is written.
    fn write_posted<C: ActorSet + ?Sized>(
        &mut self,
        index: TaskIx,
        actors: &mut C,
    ) -> Result<bool, Box<Broken>> {
        let task = self.tasks.at_mut(index)?;
        let Some(posted) = task.beside.as_mut().and_then(|beside| beside.queue().front_mut()) else {
            return Ok(false);
        };
        let execution = posted.execution;
        if let PostedState::Flying(flight) = posted.state {
            let Some(result) = actors.landed(flight) else {
                return Ok(false);
            };
            posted.state = PostedState::Staged;
            task.stage_result(&self.driver, execution, result);
        } else if let PostedState::Faulty(fault) = std::mem::replace(&mut posted.state, PostedState::Staged) {
            task.fault = Some(fault);
            task.stage_fault();
        }
        if self.write_all(index, execution, false)? != TaskState::Done {
            return Ok(false);
        }
        if let Some(beside) = &mut self.tasks.at_mut(index)?.beside {
            beside.queue().pop_front();
        }
        Ok(true)
    }

    /// Names the oldest method in flight in the lane's progress, while the lane waits.
    pub(super) fn shows_posted(&self) {
        let posters = self.posters.iter().filter_map(|index| self.tasks.get(*index));
        let oldest = |task: &TaskRun| Some((task.beside.as_ref()?.oldest()?, task.id));
        if let Some((execution, task)) = posters.filter_map(oldest).min() {
            self.progress.at(execution).set(task.0, Phase::Computing);
        }
    }

    /// Names the task that the lane waits at, after the last result of a posted task.
    fn shows_present(&self) {
        if let (TaskState::Begun | TaskState::Waiting, Some(task)) = (self.state.task, self.task()) {
            let progress = self.progress.at(self.state.execution);
            progress.set(task.id.0, Phase::Reading);
        }
    }
}
