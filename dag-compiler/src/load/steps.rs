//! Steps: from the operations of a lane to the steps of its loop.

use crate::ir::{OpKind, Operation};
use crate::run::lane::{LaneStep, STEPS, TaskRun};

/// Converts a lane's operations to steps. All READs of a task become one wait right before its work: channels have
/// slots, so no writer waits for a READ, and a later wait holds up less.
pub(super) fn steps(operations: &[Operation], tasks: &[Option<usize>]) -> Vec<LaneStep> {
    let mut steps: Vec<LaneStep> = Vec::with_capacity(operations.len());
    for operation in operations {
        let Some(task) = tasks.get(operation.task.index()).copied().flatten() else {
            continue;
        };
        match operation.kind {
            OpKind::Read { .. } => {}
            OpKind::Compute => steps.extend([LaneStep::Await(task), LaneStep::Compute(task)]),
            OpKind::Collective => steps.extend([LaneStep::Await(task), LaneStep::Post(task)]),
            OpKind::Write => steps.push(LaneStep::Write(task)),
        }
    }
    steps
}

/// Replaces the first step of each plain task by [`LaneStep::Run`], which stands for all three. A task is plain if its
/// three steps follow each other, and it has a method, no arguments to prepare (lists, or tensors to copy to a device),
/// and one outlet, to which publishing runs no user code. The other two steps stay behind it for the slow path.
pub(super) fn merged(mut steps: Vec<LaneStep>, tasks: &[TaskRun]) -> Vec<LaneStep> {
    let plain = |index: usize| {
        tasks.get(index).is_some_and(|task| {
            let prepared = !task.gathers.is_empty() || !task.brings.is_empty();
            task.sole.is_some() && !prepared && task.collective.is_none()
        })
    };
    for first in 0..steps.len() {
        let Some(
            &[
                LaneStep::Await(task),
                LaneStep::Compute(second),
                LaneStep::Write(third),
            ],
        ) = steps.get(first..first + 3)
        else {
            continue;
        };
        if task == second
            && task == third
            && plain(task)
            && let Some(step) = steps.get_mut(first)
        {
            *step = LaneStep::Run(task);
        }
    }
    steps
}

/// Sets the stretch of each hop: the number of hops, from this one on, that follow each other in the program and among
/// the tasks.
pub(super) fn stretch(steps: &[LaneStep], tasks: &mut [TaskRun]) {
    for (first, step) in steps.iter().enumerate().rev() {
        let LaneStep::Run(index) = *step else { continue };
        let follows = matches!(steps.get(first + STEPS), Some(LaneStep::Run(next)) if *next == index + 1);
        let hop = tasks.get(index).and_then(|task| task.hop);
        let next = tasks.get_mut(index + 1).and_then(|next| next.hop.as_mut());
        let after = next.filter(|_| follows).map_or(0, |next| next.come_after(hop));
        if let Some(hop) = tasks.get_mut(index).and_then(|task| task.hop.as_mut()) {
            hop.stretch = 1 + after;
        }
    }
}
