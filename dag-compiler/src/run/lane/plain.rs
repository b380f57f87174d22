//! A plain task in one go: its READs, its COMPUTE and its WRITE, where nothing is out of the ordinary.

use selvedge_channels::{Arrival, ChannelError, Readiness};

use super::work::invoke;
use super::{Broken, LaneLoop, Moved, broken};
use crate::run::clock::ticks;
use crate::run::control::Phase;
use crate::run::crew::Crew;
use crate::run::report::fault_of;

impl LaneLoop {
    /// Does a task whose inputs have all come, in one go; `None` where anything is out of the ordinary, which the steps one by
    /// one are for: nothing has changed then.
    #[inline]
    pub(super) fn run(&mut self, index: usize, crew: &mut dyn Crew) -> Option<Result<Moved, Box<Broken>>> {
        let execution = self.state.execution;
        let task = self.tasks.get_mut(index)?;
        let sole = task.sole?;
        if !self.state.forgone.is_empty() || self.control.is_cancelled(execution) {
            return None;
        }
        for value in &task.args {
            match self.values.get_mut(*value)?.fill(execution) {
                Ok(Arrival::Value) => {}
                // Its only input: there is no fault to look for beside it.
                Ok(Arrival::Nothing) if self.state.waiting && task.args.len() == 1 => {
                    return Some(Ok(Moved::Blocked));
                }
                _ => return None,
            }
        }
        task.outlets.get(sole)?.as_ref()?;
        // From here on it goes to its end.
        let traced = self.recorder.is_on();
        let read = if traced { ticks() } else { 0 };
        task.gave_up = false;
        self.progress.set(execution, task.id.0, Phase::Computing);
        let invoked = invoke(task, &mut self.values, &self.driver, crew);
        // Before the result can be seen: whoever has that may write the next input (`LOOP-5`).
        for value in &task.args {
            if let Some(value) = self.values.get_mut(*value)
                && let Err(error) = value.read_done()
            {
                return Some(Err(broken(task.id, error)));
            }
        }
        let Some(Some(outlet)) = task.outlets.get_mut(sole) else {
            return Some(Ok(Moved::Ended));
        };
        if let Err(failure) = invoked {
            outlet.stage_fault(fault_of(&task.info, execution, failure));
        }
        if traced {
            // Before the result can be seen, so that whoever has it finds the event too.
            self.recorder
                .record_run(task.id, task.args.len(), execution, read);
        }
        let published = outlet.publish(execution, &mut self.values);
        if traced && !matches!(published, Ok(Readiness::Ready)) {
            self.recorder.retract_write();
        }
        match published {
            Ok(Readiness::Ready) => self.state.step += 2,
            // The WRITE waits for room, or says that there is no value.
            Ok(Readiness::Blocked) | Err(ChannelError::NoValue) => self.state.step += 1,
            Err(error) => return Some(Err(broken(task.id, error))),
        }
        Some(Ok(Moved::Advanced))
    }
}
