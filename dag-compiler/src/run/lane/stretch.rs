//! Stretches: tasks that a lane does one after the other, in a loop over their straight lines.

use selvedge_channels::AnyValue;

use super::straight::{Lap, Straight, go};
use super::{Broken, LaneLoop, TaskState};
use crate::run::actor_set::ActorSet;
use crate::run::control::Control;
use crate::run::table::TaskIx;
use crate::run::trace::Recorder;

/// Tasks of a lane that follow each other, in the program and among the lane's tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) first: TaskIx,
    pub(crate) len: usize,
}

impl Stretch {
    /// The task with number `place`.
    #[inline]
    pub(super) fn task(self, place: usize) -> TaskIx {
        TaskIx(self.first.0 + place)
    }
}

/// The number of polls for the next input before the lane waits for it in the usual way; together they take some
/// microseconds.
const LOOKS: u32 = 64;

/// The number of polls for each check of the mailbox and the state. Quick polls see the input sooner.
const GLANCES: u32 = 8;

/// Whether the next input arrives within [`LOOKS`] polls, before an ordinary call for an actor or the end of the graph.
#[inline]
fn comes_soon<C: ActorSet + ?Sized>(
    value: &dyn AnyValue,
    actors: &C,
    control: &Control,
    recorder: &mut Recorder,
) -> bool {
    for _ in 0..LOOKS / GLANCES {
        if actors.is_called() || !control.is_running() {
            break;
        }
        for _ in 0..GLANCES {
            recorder.looks();
            if value.peek() {
                return true;
            }
            std::hint::spin_loop();
        }
    }
    recorder.blocked();
    false
}

/// The tasks that were done, and the state of the task after them; [`TaskState::Done`] if there is none.
type Reached = (usize, Result<TaskState, Box<Broken>>);

impl LaneLoop {
    /// Does the tasks that are left of a stretch, as far as their straight lines go, and advances past them. Returns
    /// the state of the task that the lane is at then, or [`TaskState::Done`] if the lane has moved. If the program
    /// consists of one stretch only, continues with the executions that follow, as long as their inputs arrive soon.
    #[inline(never)]
    pub(super) fn go_straight<C: ActorSet + ?Sized>(
        &mut self,
        actors: &mut C,
        stretch: Stretch,
    ) -> Result<TaskState, Box<Broken>> {
        // Ranks must advance between two tasks.
        let alone = self.ranks.is_empty();
        let lingers = alone && self.spins && self.steps.len() == 1;
        let mut again = false;
        loop {
            let (first, left) = (stretch.task(self.state.place), stretch.len - self.state.place);
            let len = if alone { left } else { 1 };
            let (done, reached) = match self.tasks.at(first)?.straight {
                Some(Straight::One(_)) => self.lap(actors, first, len, again),
                Some(Straight::Many) if !again => self.go_alone(actors, first),
                _ => (0, Ok(TaskState::Begun)),
            };
            if done > 0 {
                self.state.pass(done, stretch.len, self.steps.len());
            }
            match reached? {
                TaskState::Done if lingers => again = true,
                TaskState::Computed | TaskState::Writing => {
                    self.state.task = TaskState::Computed;
                    return Ok(TaskState::Done);
                }
                _ if again || done > 0 => return Ok(TaskState::Done),
                reached => return Ok(reached),
            }
        }
    }

    /// Does `len` tasks of one execution, up to the first that has not exactly one argument and one result. If `again`,
    /// does so only if the input of the execution arrives soon.
    #[inline]
    fn lap<C: ActorSet + ?Sized>(
        &mut self,
        actors: &mut C,
        first: TaskIx,
        len: usize,
        again: bool,
    ) -> Reached {
        let execution = self.state.execution;
        let tasks = match self.tasks.range_mut(first, len) {
            Ok(tasks) => tasks,
            Err(error) => return (0, Err(error.into())),
        };
        let (values, recorder) = (&mut *self.values, &mut self.recorder);
        let lap = Lap {
            execution,
            driver: &self.driver,
            progress: self.progress.at(execution),
            cancels: self.control.cancels(execution),
            traced: recorder.is_on(),
        };
        if again
            && let Some(Straight::One(one)) = tasks.first().and_then(|task| task.straight)
            && let Some(input) = values.get(one.from.0)
            && !comes_soon(input.as_ref(), actors, &self.control, recorder)
        {
            return (0, Ok(TaskState::Waiting));
        }
        for (done, task) in tasks.iter_mut().enumerate() {
            let Some(Straight::One(one)) = task.straight else {
                return (done, Ok(TaskState::Begun));
            };
            match go(task, Some(one), done > 0, values, actors, recorder, &lap) {
                Ok(TaskState::Done) => {}
                Ok(TaskState::Failed) => return (done + 1, Ok(TaskState::Begun)),
                reached => return (done, reached),
            }
        }
        (len, Ok(TaskState::Done))
    }

    /// Does one task with any number of arguments.
    #[inline(never)]
    fn go_alone<C: ActorSet + ?Sized>(&mut self, actors: &mut C, index: TaskIx) -> Reached {
        let execution = self.state.execution;
        let task = match self.tasks.at_mut(index) {
            Ok(task) => task,
            Err(error) => return (0, Err(error.into())),
        };
        let lap = Lap {
            execution,
            driver: &self.driver,
            progress: self.progress.at(execution),
            cancels: self.control.cancels(execution),
            traced: self.recorder.is_on(),
        };
        let reached = go(
            task,
            None,
            false,
            &mut self.values,
            actors,
            &mut self.recorder,
            &lap,
        );
        let done = matches!(reached, Ok(TaskState::Done | TaskState::Failed));
        (usize::from(done), reached)
    }
}
