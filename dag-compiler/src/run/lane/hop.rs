//! Hops: tasks of one argument and one result, one after the other, each in one go.
//!
//! Where the argument lies and where the result goes is known when the plan is loaded, and so is how many such tasks follow each
//! other: what is left to be asked of each is whether its execution has been cancelled, whether its argument has come, and whether
//! its result can be put.

use selvedge_channels::{AnyOutlet, AnyValue};
use selvedge_core::{ComputeHop, Destination, Failure, Hop, MethodEntry};

use super::plain::{Input, Ran, input, settle};
use super::{LaneLoop, STEPS, TaskRun};
use crate::run::control::{Control, Phase};
use crate::run::crew::Crew;
use crate::run::trace::{Ended, Recorder};

/// What a task is that is no more than a hop.
#[derive(Clone, Copy)]
pub(crate) struct HopRun {
    /// Its method.
    compute: ComputeHop,
    /// Index of the argument in the lane's values.
    from: usize,
    /// Index of the value that the result goes to, where it goes to one of the same lane and nowhere else.
    to: Option<usize>,
    /// The hop before it in the stretch, if there is one, puts its argument where it lies.
    follows: bool,
    /// Hops that follow each other from here on, this one among them, in the program and among the lane's tasks.
    pub(crate) stretch: usize,
}

impl HopRun {
    /// What a task is, if it is no more than a hop.
    pub(crate) fn of(task: &TaskRun, method: Option<&MethodEntry>) -> Option<Self> {
        let compute = method?.hop?;
        let ([from], [param]) = (task.args.as_slice(), task.params.as_slice()) else {
            return None;
        };
        let to = task.outlets.first()?.as_ref()?.within();
        (from == param && task.sole == Some(0) && to != Some(*from)).then_some(HopRun {
            compute,
            from: *from,
            to,
            follows: false,
            stretch: 1,
        })
    }

    /// Takes note of the hop before it; returns how many follow each other from here on.
    pub(crate) fn come_after(&mut self, before: Option<HopRun>) -> usize {
        self.follows = before.is_some_and(|before| before.to == Some(self.from));
        self.stretch
    }

    /// One computation, unless there is no room for its result.
    #[inline]
    fn computation<'a>(
        self,
        values: &'a mut [Box<dyn AnyValue>],
        outlets: &'a mut [Option<Box<dyn AnyOutlet>>],
        execution: u64,
    ) -> Option<Hop<'a>> {
        let Some(to) = self.to else {
            let argument = values.get_mut(self.from)?.as_mut();
            let outlet = outlets.first_mut()?.as_mut()?.as_mut();
            return Some(Hop::new(argument, Destination::Outlet(outlet), execution));
        };
        let [argument, local] = values.get_disjoint_mut([self.from, to]).ok()?;
        let free = local.is_empty();
        free.then(|| Hop::new(argument.as_mut(), Destination::Local(local.as_mut()), execution))
    }
}

/// Looks at the next input that are worth it before it is waited for as any other: some microseconds.
const LOOKS: u32 = 64;

/// Looks at it for one at everything else: the quicker they are, the sooner it is seen.
const GLANCES: u32 = 8;

/// Whether the next input comes within some looks, before somebody calls an actor or the graph ends.
#[inline]
fn comes_soon<C: Crew + ?Sized>(
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

/// What a hop has come to that is not over with its method; `None` where its result is there as any other.
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
    /// Does so many hops from this task on, up to what is out of the ordinary; returns how many it has done, and what became of the
    /// last. Where the program is nothing else, it goes on with the executions that follow, as long as their inputs come soon: it
    /// returns what it has done of the last.
    #[inline(never)]
    pub(super) fn hops<C: Crew + ?Sized>(
        &mut self,
        crew: &mut C,
        first: usize,
        stretch: usize,
    ) -> (usize, Ran) {
        // Ranks are looked after between two steps.
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
                // The executions before have moved; this one is begun as any other.
                (0, Ran::Blocked | Ran::Otherwise) if again => return (0, Ran::Done),
                ran => return ran,
            }
        }
    }

    /// The hops of one execution; where it is done `again`, only if its input comes soon.
    #[inline]
    fn lap<C: Crew + ?Sized>(
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
            // What the hop before has put there is there.
            if done == 0 || !hop.follows {
                match input(values, hop.from, execution) {
                    Input::There => {}
                    Input::NotYet => return (done, Ran::Blocked),
                    Input::Otherwise => return (done, Ran::Otherwise),
                }
            }
            let Some(mut computation) = hop.computation(values, &mut task.outlets, execution) else {
                return (done, Ran::Otherwise);
            };
            // From here on it goes to its end.
            if traced {
                recorder.open(task.id, execution, done > 0);
            }
            progress.set(task.id.0, Phase::Computing);
            let invoked = crew.hop(&mut task.seat, task.actor, hop.compute, &mut computation);
            let handed_over = computation.has_handed_over();
            if invoked.is_ok() && handed_over && computation.into_argument().count_read() {
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
