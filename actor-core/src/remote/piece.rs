//! The pieces of work of a process's threads: remote functions, and errands of references.

use selvedge_channels::dispose;

use crate::reference::references::{Errand, Helpers};
use crate::remote::executor::{Executor, Work, WorkRefusal};
use crate::remote::job::RemoteJob;
use crate::remote::resolving::ResolvingJob;

/// A piece of work.
pub(crate) enum Piece {
    /// Runs a function.
    Job(RemoteJob),
    /// Looks whether the arguments of a call are there, and runs its function.
    Resolving(ResolvingJob),
    /// Encodes or drops a value.
    Errand(Errand),
}

impl Work for Piece {
    fn run(self) {
        match self {
            Piece::Job(job) => job.run(),
            Piece::Resolving(job) => job.run(),
            Piece::Errand(errand) => errand(),
        }
    }

    fn refuse(self, why: WorkRefusal) {
        match self {
            Piece::Job(job) => job.refuse(why),
            Piece::Resolving(job) => job.refuse(why),
            // Nobody waits for a drop, and who waits for a value is told by the end of this process.
            Piece::Errand(errand) => dispose(errand),
        }
    }
}

impl Helpers for Executor<Piece> {
    fn run(&self, errand: Errand) {
        self.submit(Piece::Errand(errand));
    }
}
