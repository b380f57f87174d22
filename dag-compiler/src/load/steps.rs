//! Steps: from the operations of a lane to the steps of its loop.

use super::LoadError;
use crate::ir::{OpKind, Operation};
use crate::run::lane::{LaneStep, Stretch, TaskRun};
use crate::run::table::{Table, TaskIx};

/// Converts a lane's operations to steps. All READs of a task become one wait right before its work: channels have
/// slots, so no writer waits for a READ, and a later wait holds up less. Tasks whose WRITE comes right after their work
/// form stretches.
pub(super) fn steps(operations: &[Operation], tasks: &[Option<TaskIx>]) -> Result<Vec<LaneStep>, LoadError> {
    let mut steps: Vec<LaneStep> = Vec::new();
    for operation in operations {
        let task = tasks.get(operation.task.index()).copied().flatten();
        let task = task.ok_or(LoadError::Inconsistent("an operation of an unknown task"))?;
        match operation.kind {
            OpKind::Read { .. } => {}
            OpKind::Compute | OpKind::Collective => steps.push(LaneStep::Begin(task)),
            OpKind::Write if steps.last() == Some(&LaneStep::Begin(task)) => {
                steps.pop();
                run(&mut steps, task);
            }
            OpKind::Write => steps.push(LaneStep::Finish(task)),
        }
    }
    Ok(steps)
}

/// Adds a whole task to the stretch at the end of the steps, or begins a stretch.
fn run(steps: &mut Vec<LaneStep>, task: TaskIx) {
    match steps.last_mut() {
        Some(LaneStep::Run(stretch)) if stretch.first.0 + stretch.len == task.0 => stretch.len += 1,
        _ => steps.push(LaneStep::Run(Stretch { first: task, len: 1 })),
    }
}

/// Tells each task of a stretch which task comes before it.
pub(super) fn follow(steps: &[LaneStep], tasks: &mut Table<TaskIx, TaskRun>) -> Result<(), LoadError> {
    for step in steps {
        let LaneStep::Run(stretch) = *step else { continue };
        let mut before = None;
        for task in tasks.range_mut(stretch.first, stretch.len)? {
            if let Some(straight) = &mut task.straight {
                straight.come_after(before);
            }
            before = task.straight;
        }
    }
    Ok(())
}
