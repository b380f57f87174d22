//! A task as its lane runs it, and its states.

use selvedge_channels::{AnyOutlet, Fault};
use selvedge_core::{ActorId, Compute, Gather, ValueIx};

use super::beside::Beside;
use super::bring::BringRun;
use super::straight::Straight;
use crate::ir::TaskId;
use crate::run::ranks::CollectiveRun;
use crate::run::report::TaskInfo;

/// The state, in one execution, of the task that a lane is at, in the order in which a task goes through them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TaskState {
    /// Nothing of the task is done.
    #[default]
    Begun,
    /// An input has not arrived.
    Waiting,
    /// All inputs have arrived.
    Ready,
    /// All inputs have arrived, and the methods of the actor that are in flight do not allow this one.
    Queued,
    /// The task does not run: it is cancelled or one of its inputs is a fault, and others have not arrived.
    GaveUp,
    /// The result or a fault is staged, or the part in a collective is posted.
    Computed,
    /// The part in a collective is not over, or the method is in flight and a task of this lane reads its result.
    Meeting,
    /// The result is staged, and an output has no free slot.
    Writing,
    /// The result is published.
    Done,
    /// The failure of the method is published in the place of the result.
    Failed,
}

impl TaskState {
    /// Whether the task cannot go on until another thread has done something.
    #[inline]
    pub(super) fn is_blocked(self) -> bool {
        matches!(
            self,
            TaskState::Waiting | TaskState::Queued | TaskState::Meeting | TaskState::Writing
        )
    }
}

/// A task as its lane runs it.
pub(crate) struct TaskRun {
    pub(crate) id: TaskId,
    pub(crate) actor: ActorId,
    /// The position at which the set of actors last found the actor.
    pub(crate) seat: usize,
    /// The method. The method of a rank of a collective is never called.
    pub(crate) compute: Compute,
    pub(crate) info: TaskInfo,
    /// The values of the arguments.
    pub(crate) args: Vec<ValueIx>,
    /// The values of the parameters: a list of arguments is one value.
    pub(crate) params: Vec<ValueIx>,
    /// Lists to assemble, inner lists first.
    pub(crate) gathers: Vec<GatherRun>,
    /// Arguments whose tensors are needed on the actor's device.
    pub(crate) brings: Vec<BringRun>,
    /// The outlets of the whole result, then of each part, then of the signal that the task is done; `None` if the
    /// value has no reader.
    pub(crate) outlets: Vec<Option<Box<dyn AnyOutlet>>>,
    /// The number of outlets before the signal's.
    pub(crate) results: usize,
    /// The index of the only outlet, if there is only one and publishing to it runs no user code.
    pub(crate) sole: Option<usize>,
    /// The straight line of the task; `None` if the task always goes state by state.
    pub(crate) straight: Option<Straight>,
    /// The fault that takes the place of the result in this execution.
    pub(crate) fault: Option<Fault>,
    /// The task's part as a rank of a collective, in place of a method.
    pub(crate) collective: Option<CollectiveRun>,
    /// The record of the task if its method overlaps with others of its actor, or excludes them.
    pub(crate) beside: Option<Box<Beside>>,
}

impl TaskRun {
    /// The only outlet, if publishing to it runs no user code.
    #[inline]
    pub(super) fn sole(&mut self) -> Option<&mut dyn AnyOutlet> {
        let outlet = self.outlets.get_mut(self.sole?)?;
        Some(outlet.as_mut()?.as_mut())
    }

    /// Stages the signal that tells other tasks only that this task is done.
    pub(crate) fn stage_signal(&mut self) {
        for signal in self.outlets.iter_mut().skip(self.results).flatten() {
            if let Some(signal) = signal.typed_mut::<()>() {
                signal.stage(());
            }
        }
    }

    /// Stages the fault of this execution, if there is one, in every outlet. Returns whether there was one.
    pub(crate) fn stage_fault(&mut self) -> bool {
        let Some(fault) = self.fault.take() else {
            return false;
        };
        let outlets = self.outlets.iter_mut().flatten();
        outlets.for_each(|outlet| outlet.stage_fault(fault.clone()));
        true
    }
}

/// A list that is assembled before its task computes.
pub(crate) struct GatherRun {
    pub(crate) gather: Gather,
    /// The values of the elements.
    pub(crate) members: Vec<ValueIx>,
    /// The value of the list.
    pub(crate) into: ValueIx,
}
