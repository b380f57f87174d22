//! Lookup tables over a plan that replace searches, so that loading takes linear time.

use selvedge_core::{ActorId, IdMap, ValueIx};

use super::LoadError;
use crate::ir::{ChannelId, GraphIr, LaneProgram, Origin, Plan, TaskId, ValueId};
use crate::run::table::TaskIx;

/// The lookup tables of one plan.
pub(crate) struct Index {
    /// By value: its channel of each kind that its writer writes.
    pub(super) channels: Vec<[Option<ChannelId>; 3]>,
    /// By task: the first value that it makes.
    makes: Vec<Option<ValueId>>,
    /// By value: the next value of the same task.
    next: Vec<Option<ValueId>>,
    pub(super) actors: IdMap<ActorId, usize>,
}

impl Index {
    pub(crate) fn of(plan: &Plan) -> Self {
        let values = plan.ir.values.len();
        let mut channels = vec![[None; 3]; values];
        for channel in &plan.channels {
            let of_value = channels.get_mut(channel.value.index());
            if let Some(place) = of_value.and_then(|kinds| kinds.get_mut(channel.kind as usize)) {
                *place = Some(channel.id);
            }
        }
        let (mut makes, mut next) = (vec![None; plan.ir.tasks.len()], vec![None; values]);
        for (index, (value, next)) in plan.ir.values.iter().zip(&mut next).enumerate().rev() {
            if let Origin::Task(task) = value.origin
                && let Some(first) = makes.get_mut(task.index())
            {
                *next = first.replace(ValueId(index as u32));
            }
        }
        let actors = plan
            .ir
            .actors
            .iter()
            .enumerate()
            .map(|(index, actor)| (actor.id, index))
            .collect();
        Index {
            channels,
            makes,
            next,
            actors,
        }
    }

    /// The values that a task makes.
    pub(super) fn made_by(&self, task: TaskId) -> impl Iterator<Item = ValueId> {
        let first = self.makes.get(task.index()).copied().flatten();
        std::iter::successors(first, |value| self.next.get(value.index()).copied().flatten())
    }
}

/// The positions of tasks and values in the lane that is being built, so far.
pub(super) struct Places {
    /// By task: its position among the lane's tasks.
    pub(super) tasks: Vec<Option<TaskIx>>,
    /// By value: its position among the lane's values.
    pub(super) values: Vec<Option<ValueIx>>,
}

impl Places {
    pub(super) fn of(ir: &GraphIr) -> Self {
        Places {
            tasks: vec![None; ir.tasks.len()],
            values: vec![None; ir.values.len()],
        }
    }

    pub(super) fn task_mut(&mut self, task: TaskId) -> Result<&mut Option<TaskIx>, LoadError> {
        let place = self.tasks.get_mut(task.index());
        place.ok_or(LoadError::Inconsistent("an unknown task"))
    }

    pub(super) fn value(&self, value: ValueId) -> Option<ValueIx> {
        self.values.get(value.index()).copied().flatten()
    }

    /// Clears the entries of a lane, in time proportional to the length of the lane.
    pub(super) fn leave(&mut self, program: &LaneProgram) {
        for step in &program.steps {
            if let Some(place) = self.tasks.get_mut(step.task.index()) {
                *place = None;
            }
        }
        for value in &program.values {
            if let Some(place) = self.values.get_mut(value.value.index()) {
                *place = None;
            }
        }
    }
}
