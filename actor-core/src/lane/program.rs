//! Programs, which run on leased lanes: the interface between actors and the clients that compute with them.
//!
//! A leased lane runs one [`Program`] after another, each to its end. A program owns the lane's thread while it runs.
//! It answers ordinary calls itself, when it has time, through
//! [`LaneHost::serve_mailbox`](crate::LaneHost::serve_mailbox).

use std::fmt;

use crate::id::LaneId;
use crate::lane::host::LaneHost;

/// Work for one lane. `run` returns when the program's own control word says so.
///
/// A program must return soon after its lease is told to end, and must not wait for anything that cannot wake it. A
/// lane that does not return is reported by [`Lease::join`](crate::Lease::join).
pub trait Program: Send {
    /// Runs the program to its end, on the lane's thread.
    fn run(&mut self, lane: &mut LaneHost<'_>);
}

/// The programs that a loader makes from one shipment: at most one for each lane of the worker.
pub type LoadedPrograms = Vec<(LaneId, Box<dyn Program>)>;

/// A loader, which turns shipped bytes into programs in a worker process. Registered in [`LOADERS`](crate::LOADERS).
pub struct ProgramLoader {
    /// The kind of the programs, as named in [`Lease::load_worker`](crate::Lease::load_worker).
    pub kind: &'static str,
    /// Decodes the bytes. Runs on the worker's main thread; the text of an error reaches the driver.
    pub load: fn(&[u8]) -> Result<LoadedPrograms, String>,
}

impl fmt::Debug for ProgramLoader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgramLoader").field("kind", &self.kind).finish()
    }
}
