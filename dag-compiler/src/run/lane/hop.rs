//! Hops: tasks of one argument and one result, done one after the other, each in one go.
//!
//! The loader determines where the argument lies, where the result goes, and how many such tasks follow each other.
//! Only three questions remain for each hop: whether its execution has been cancelled, whether its argument has
//! arrived, and whether there is room for its result.

use selvedge_channels::{AnyOutlet, AnyValue};
use selvedge_core::{AsyncDriver, Failure, Frame, Operands};

use super::plain::{Input, Ran, input, settle};
use super::{LaneLoop, STEPS, TaskRun};
use crate::run::actor_set::ActorSet;
use crate::run::control::{Control, Phase};
use crate::run::trace::{Ended, Recorder};

/// The data of a task that is a hop.
#[derive(Clone, Copy)]
pub(crate) struct HopRun {
    /// Index of the argument in the lane's values.
    from: usize,
    /// Index of the value that the result goes to, if it goes to one value of the same lane and nowhere else.
    to: Option<usize>,
    /// True if the previous hop of the stretch writes this hop's argument.
    follows: bool,
    /// The number of hops that follow each other from this one on, itself included, in the program and among the lane's
    /// tasks.
    pub(crate) stretch: usize,
}

impl HopRun {
    /// The data of a task that is a hop; `None` if the task is no hop.
    pub(crate) fn of(task: &TaskRun) -> Option<Self> {
        let ([from], [param]) = (task.args.as_slice(), task.params.as_slice()) else {
            return None;
        };
        let to = task.outlets.first()?.as_ref()?.within();
        (from == param && task.sole == Some(0) && to != Some(*from)).then_some(HopRun {
            from: *from,
            to,
            follows: false,
            stretch: 1,
        })
    }

    /// Records the hop before this one; returns the number of hops that follow each other from this one on.
    pub(crate) fn come_after(&mut self, before: Option<HopRun>) -> usize {
        self.follows = before.is_some_and(|before| before.to == Some(self.from));
        self.stretch
    }

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
            let argument = values.get_mut(self.from)?.as_mut();
            let outlet = outlets.first_mut()?.as_mut()?.as_mut();
            return Some(Frame::new(
                Operands::ToOutlet { argument, outlet },
                driver,
                execution,
            ));
        };
        let [argument, local] = values.get_disjoint_mut([self.from, to]).ok()?;
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

/// The number of polls for the next input before the lane waits for it in the usual way; together they take some
/// microseconds.
const LOOKS: u32 = 64;

/// The number of polls for each check of the mailbox and the state. Quick polls see the input sooner.
const GLANCES: u32 = 8;

/// Whether the next input arrives within [`LOOKS`] polls, before an ordinary call for an actor or the end of the graph.
#[inline]
fn comes_soon<C: ActorSet + ?Sized>(
    value: &dyn AnyValue,
    crew: &C,
    control: &Control,
    recorder: &mut Recorder,
) -> bool {
    for _ in 0..LOOKS / GLANCES {
        if crew.is_called() || !control.is_running() {
            break;
        }
        for _ in 0..GLANCES {
            recorder.looks();
            if value.stirs() {
                return true;
            }
            std::hint::spin_loop();
        }
    }
    recorder.blocked();
    false
}

/// Completes a hop that is not done when its method has returned; `None` if the method has succeeded and the result is
/// then published.
#[inline(never)]
fn otherwise(
    task: &mut TaskRun,
    values: &mut [Box<dyn AnyValue>],
    recorder: &mut Recorder,
    execution: u64,
    invoked: Result<(), Box<Failure>>,
    handed_over: bool,
) -> Option<Ran> {
    let failed = invoked.is_err();
    let ran = settle(task, values, execution, invoked, handed_over);
    if recorder.is_on() {
        recorder.close(task.id, ran.ended());
    }
    (failed || !matches!(ran, Ran::Done)).then_some(ran)
}

impl LaneLoop {
    /// Does `stretch` hops from task `first` on, as far as the fast path applies; returns the number of hops done and
    /// the outcome of the last. If the program consists of these hops only, continues with the executions that follow,
    /// as long as their inputs arrive soon; the returned number counts the hops of the last execution.
    #[inline(never)]
    pub(super) fn hops<C: ActorSet + ?Sized>(
        &mut self,
        crew: &mut C,
        first: usize,
        stretch: usize,
    ) -> (usize, Ran) {
        // Ranks must advance between two steps.
        let stretch = if self.ranks.is_empty() { stretch } else { 1 };
        let steps = STEPS * stretch;
        let lingers = steps == self.steps.len() && self.ranks.is_empty() && self.spins;
        let mut again = false;
        loop {
            match self.lap(crew, first, stretch, again) {
                (done, Ran::Done) if lingers && done == stretch => {
                    self.pass(steps);
                    again = true;
                }
                // The previous executions have moved; this one begins in the usual way.
                (0, Ran::Blocked | Ran::Otherwise) if again => return (0, Ran::Done),
                ran => return ran,
            }
        }
    }

    /// Does the hops of one execution. If `again`, does so only if the input of the execution arrives soon.
    #[inline]
    fn lap<C: ActorSet + ?Sized>(
        &mut self,
        crew: &mut C,
        first: usize,
        stretch: usize,
        again: bool,
    ) -> (usize, Ran) {
        let execution = self.state.execution;
        let Some(tasks) = self.tasks.get_mut(first..first + stretch) else {
            return (0, Ran::Otherwise);
        };
        let (values, recorder) = (self.values.as_mut_slice(), &mut self.recorder);
        let (progress, cancels) = (self.progress.at(execution), self.control.cancels(execution));
        let traced = recorder.is_on();
        if again {
            let input = tasks.first().and_then(|task| values.get(task.hop?.from));
            if !input.is_some_and(|value| comes_soon(value.as_ref(), crew, &self.control, recorder)) {
                return (0, Ran::Blocked);
            }
        }
        for (done, task) in tasks.iter_mut().enumerate() {
            let Some(hop) = task.hop else {
                return (done, Ran::Otherwise);
            };
            if cancels.is_cancelled() {
                return (done, Ran::Otherwise);
            }
            // A value that the previous hop has written is there.
            if done == 0 || !hop.follows {
                match input(values, hop.from, execution) {
                    Input::There => {}
                    Input::NotYet => return (done, Ran::Blocked),
                    Input::Otherwise => return (done, Ran::Otherwise),
                }
            }
            let Some(mut frame) = hop.frame(values, &mut task.outlets, &self.driver, execution) else {
                return (done, Ran::Otherwise);
            };
            // From here on the hop runs to its end.
            if traced {
                recorder.open(task.id, execution, done > 0);
            }
            progress.set(task.id.0, Phase::Computing);
            let invoked = crew.compute(&mut task.seat, task.actor, task.compute, &mut frame);
            let handed_over = frame.has_handed_over();
            if invoked.is_ok() && handed_over && frame.count_read() {
                if traced {
                    recorder.close(task.id, Ended::Written);
                }
            } else if let Some(ran) = otherwise(task, values, recorder, execution, invoked, handed_over) {
                return (done + usize::from(matches!(ran, Ran::Done)), ran);
            }
        }
        (tasks.len(), Ran::Done)
    }
}
