//! Tear-down: the end of a running graph.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use selvedge_core::{LaneId, ProcessId, deadline_after};

use crate::run::driver::Driver;
use crate::run::engine::{Engine, TimeLimit};

/// The outcome of a tear-down.
#[derive(Clone, Debug, Default)]
#[must_use]
#[non_exhaustive]
pub struct Teardown {
    /// Lanes whose program did not end in time.
    pub stuck: Vec<StuckLane>,
}

/// A lane that did not return its thread in time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StuckLane {
    /// An actor of that lane.
    pub actor: String,
    /// The placement of the actor.
    pub placement: String,
    /// The task at which the lane was last seen.
    pub task: Option<String>,
    /// True if the lane's worker process was killed. A thread cannot be killed: it is abandoned, with its actors.
    pub killed: bool,
}

impl Engine {
    /// Ends every program within the deadline, and drops async methods where they await; kills the worker processes of
    /// lanes that do not end.
    pub(crate) fn teardown(&self, timeout: Duration) -> Teardown {
        // Acquire and release: a second caller sees everything that the first has done so far.
        if self.is_a_copy() || self.torn_down.swap(true, Ordering::AcqRel) {
            return Teardown::default();
        }
        let deadline = deadline_after(timeout);
        self.lease.ending();
        self.control.stop();
        self.interrupt();
        self.tell_watchers();
        self.turn.rouse();
        let late = self.lease.join(deadline);
        let stuck = late.iter().filter_map(|lane| self.stuck_lane(*lane)).collect();
        if !late.is_empty() {
            self.lease.kill(&late);
        }
        // Refused while an inline method computes, possibly the very method that ends the graph. The thread that runs
        // it sees the state when the method returns, and the last handle frees the resources that are held.
        let limit = TimeLimit::new(Some(deadline.saturating_duration_since(Instant::now())), "");
        let released = self.drive(&limit, Driver::release);
        self.turn.rouse();
        if released.is_ok() {
            self.awaiter.join(deadline);
        }
        Teardown { stuck }
    }

    fn stuck_lane(&self, lane: LaneId) -> Option<StuckLane> {
        let actor = self
            .plan
            .ir
            .actors
            .iter()
            .find(|actor| actor.lane == lane || actor.home.lane == lane)?;
        let progress = self.control.progress(lane);
        let task = progress.and_then(|progress| self.plan.ir.tasks.get(progress.task as usize));
        Some(StuckLane {
            actor: actor.name.clone(),
            placement: actor.placement.clone(),
            task: task.map(|task| task.label.clone()),
            killed: actor.home.process != ProcessId::DRIVER,
        })
    }
}
