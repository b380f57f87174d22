//! Suspects: the lanes at fault when a wait times out.
//!
//! A suspect is a lane, with its actor, task and phase, and never a channel. A plan is proven to be free of deadlock,
//! so a lane that waits at a channel waits in the end for a lane that computes, is stopped or meets other ranks. That
//! last lane is at fault.

use selvedge_channels::memory::process::is_stopped;
use selvedge_core::{ActorRef, LaneId};

use crate::ir::Plan;
use crate::run::control::{Control, Phase, Progress};
use crate::run::error::Suspect;

/// The lanes at fault: those whose process is stopped, else those inside a user-defined method, else the one that is
/// furthest behind. A lane that merely waits for one of these is not named.
pub(crate) fn suspects(plan: &Plan, control: &Control, actors: &[ActorRef]) -> Vec<Suspect> {
    // The driver's lane has no steps if no actor is inline.
    let lanes = plan.lanes.iter().filter(|lane| !lane.steps.is_empty());
    let mut seen: Vec<(Progress, Suspect)> = lanes
        .filter_map(|lane| {
            let progress = control.progress(lane.address.lane)?;
            Some((progress, suspect(plan, actors, lane.address.lane, progress)?))
        })
        .collect();
    seen.sort_by_key(|(progress, suspect)| (!suspect.stopped, progress.execution));
    let stopped = |(_, suspect): &(Progress, Suspect)| suspect.stopped;
    let computing = |(progress, _): &(Progress, Suspect)| progress.phase == Phase::Computing;
    if seen.iter().any(stopped) {
        seen.retain(stopped);
    } else if seen.iter().any(computing) {
        seen.retain(computing);
    } else {
        seen.truncate(1);
    }
    seen.into_iter().map(|(_, suspect)| suspect).collect()
}

fn suspect(plan: &Plan, actors: &[ActorRef], lane: LaneId, progress: Progress) -> Option<Suspect> {
    let task = plan.ir.tasks.get(progress.task as usize).or_else(|| {
        // The lane has not begun: its first task stands for it.
        let first = plan
            .lanes
            .iter()
            .find(|it| it.address.lane == lane)?
            .steps
            .first()?;
        plan.ir.tasks.get(first.task.0 as usize)
    })?;
    let actor = plan.ir.actors.iter().find(|actor| actor.id == task.actor)?;
    let pid = actors
        .iter()
        .find(|it| it.id() == actor.id)
        .and_then(ActorRef::pid);
    Some(Suspect {
        task: task.label.clone(),
        actor: actor.name.clone(),
        placement: actor.placement.clone(),
        execution: progress.execution,
        phase: progress.phase,
        stopped: pid.is_some_and(is_stopped),
        bound_at: task.bound_at.clone(),
    })
}
