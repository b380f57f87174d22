//! The shared objects that keep lanes alive: a lane ends with its last user.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use selvedge_channels::memory::made_in::MadeIn;

use crate::home::Home;
use crate::id::LaneId;
use crate::lane::thread::LaneThread;
use crate::spawn_error::SpawnError;
use crate::worker::record::WorkerRecord;

/// Starts the thread of a lane of this process.
pub(crate) type StartThread<'a> = &'a dyn Fn() -> Result<Arc<LaneThread>, SpawnError>;

/// The home of a lane: it makes the homes of the lane's actors, and ends the lane.
pub(crate) trait LaneHome: Send + Sync {
    /// Returns the home of an actor on this lane; an error if the lane was ended.
    fn actor_home(&self, lane: &LaneKeep, start: StartThread<'_>) -> Result<Box<dyn Home>, SpawnError>;

    /// The worker process of the lane, if it lives in one.
    fn worker(&self) -> Option<&Arc<WorkerRecord>> {
        None
    }

    /// Asks the lane to end, after everything that it was asked before.
    fn stop(&self, lane: LaneId);

    /// Ends the lane. Returns `false` if it has not ended at the deadline; its thread is then left behind.
    fn end(&self, lane: LaneId, deadline: Instant) -> bool;
}

/// The shared object that keeps a lane alive: held by the lane's handles and, for each of its actors, by the directory.
pub(crate) struct LaneKeep {
    pub(crate) id: LaneId,
    pub(crate) name: String,
    pub(crate) home: Box<dyn LaneHome>,
    ended: AtomicBool,
    made_in: MadeIn,
}

impl LaneKeep {
    pub(crate) fn new(name: String, home: impl LaneHome + 'static) -> Self {
        Self {
            id: LaneId::next(),
            name,
            home: Box::new(home),
            ended: AtomicBool::new(false),
            made_in: MadeIn::here(),
        }
    }

    /// Marks the lane as ended: no actor can be spawned there from now on.
    pub(crate) fn set_ended(&self) {
        // SYNC lane-ended, release side: pairs with the load in `not_ended`.
        self.ended.store(true, Ordering::Release);
    }

    /// Returns an error if the lane was ended. An actor that was built there meanwhile ends as well.
    pub(crate) fn still_there(&self) -> Result<(), SpawnError> {
        self.not_ended().inspect_err(|_| self.home.stop(self.id))
    }

    pub(crate) fn not_ended(&self) -> Result<(), SpawnError> {
        // SYNC lane-ended, acquire side: pairs with the store in `set_ended`. A thread starts under a lock that
        // `LaneHome::end` takes after that store. An actor that `Lane::end` does not find was added after `end` had
        // looked, so the load after that sees the store.
        if !self.ended.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(SpawnError::Ended {
            lane: self.name.clone(),
        })
    }
}

impl Drop for LaneKeep {
    fn drop(&mut self) {
        if self.made_in.is_here() {
            self.home.stop(self.id);
        }
    }
}
