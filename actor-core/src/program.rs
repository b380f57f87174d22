//! What a borrowed lane runs: the seam between actors and whoever computes with them.
//!
//! A lane that is leased runs one [`Program`] after another, each to its end. The program owns the lane's thread
//! while it runs; it answers ordinary calls itself, when it has time, through
//! [`LaneHost::serve_mailbox`](crate::LaneHost::serve_mailbox).

use std::fmt;

use crate::LaneHost;
use crate::id::LaneId;

/// Work for one lane. `run` returns when the program's own control word says so.
///
/// A program must return soon after its lease is told to end, and must not wait for anything that cannot wake
/// it: a lane that does not come back is reported by [`Lease::join`](crate::Lease::join).
pub trait Program: Send {
    /// Runs to the end on the lane's thread.
    fn run(&mut self, lane: &mut LaneHost<'_>);
}

/// What a loader makes of the bytes of one shipment: at most one program for each lane of the worker.
pub type LoadedPrograms = Vec<(LaneId, Box<dyn Program>)>;

/// How a worker process turns shipped bytes into programs. Registered in [`LOADERS`](crate::LOADERS).
pub struct ProgramLoader {
    /// The name used in [`Lease::start_worker`](crate::Lease::start_worker).
    pub kind: &'static str,
    /// Decodes the bytes. Runs on the worker's main thread; the text of an error reaches the driver.
    pub load: fn(&[u8]) -> Result<LoadedPrograms, String>,
}

impl fmt::Debug for ProgramLoader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgramLoader").field("kind", &self.kind).finish()
    }
}
