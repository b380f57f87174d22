//! The shared objects that keep lanes and workers alive: a lane or a worker ends with its last user.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::actor::made_in::MadeIn;
use crate::id::LaneId;
use crate::lane::thread::LaneThread;
use crate::spawn_error::SpawnError;
use crate::worker::link::OnResponse;
use crate::worker::protocol::ToWorker;
use crate::worker::record::WorkerRecord;

/// The time that a worker without handles and actors may take to end before it is killed.
const UNKEPT_GRACE: Duration = Duration::from_secs(2);

/// The home of a lane.
pub(crate) enum LaneHome {
    /// A thread of this process, started with the lane's first actor.
    Thread(Mutex<Option<Arc<LaneThread>>>),
    Worker(Arc<WorkerKeep>),
}

impl LaneHome {
    pub(crate) fn thread() -> Self {
        LaneHome::Thread(Mutex::new(None))
    }
}

/// The shared object that keeps a lane alive: held by the lane's handles and, for each of its actors, by the directory.
pub(crate) struct LaneKeep {
    pub(crate) id: LaneId,
    pub(crate) name: String,
    pub(crate) home: LaneHome,
    pub(crate) ended: AtomicBool,
    pub(crate) made_in: MadeIn,
}

/// Asks a worker to end a lane, after everything that it was asked before.
pub(crate) fn end_lane(worker: &WorkerRecord, lane: LaneId, on_response: OnResponse) {
    // A worker that is gone has no lanes; `on_response` is dropped then.
    if let Some(link) = worker.link() {
        link.request(
            |request| ToWorker::EndLane { request, lane },
            Vec::new(),
            on_response,
        );
    }
}

impl LaneKeep {
    /// Returns an error if the lane was ended. In a worker, an actor that was built there meanwhile ends as well.
    pub(crate) fn still_there(&self) -> Result<(), SpawnError> {
        self.not_ended().inspect_err(|_| {
            if let LaneHome::Worker(worker) = &self.home {
                end_lane(&worker.record, self.id, Box::new(|_| {}));
            }
        })
    }

    pub(crate) fn not_ended(&self) -> Result<(), SpawnError> {
        // SYNC lane-ended, acquire side: pairs with the store in `Lane::end`. A thread starts under a lock that `end` takes
        // after its store. An actor that `end` does not find was added after `end` had looked, so the load after that
        // sees the store.
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
        if !self.made_in.is_here() {
            return;
        }
        match &self.home {
            LaneHome::Thread(thread) => thread.lock().iter().for_each(|thread| thread.stop()),
            LaneHome::Worker(worker) => end_lane(&worker.record, self.id, Box::new(|_| {})),
        }
    }
}

/// The shared object that keeps a worker alive: held by the worker's handles and its lanes.
pub(crate) struct WorkerKeep {
    pub(crate) record: Arc<WorkerRecord>,
    pub(crate) made_in: MadeIn,
}

impl Drop for WorkerKeep {
    fn drop(&mut self) {
        if self.made_in.is_here() {
            self.record.end(Instant::now() + UNKEPT_GRACE);
        }
    }
}
