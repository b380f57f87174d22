//! The pieces of work of a process's threads: remote functions, and errands of references.

use std::sync::Arc;
use std::task::Waker;

use selvedge_channels::dispose;

use crate::current::{Current, within_current};
use crate::errand::Errand;
use crate::reference::references::Helpers;
use crate::remote::async_thread::AsyncThread;
use crate::remote::executor::{Executor, Work, WorkRefusal};
use crate::remote::job::RemoteJob;
use crate::remote::resolving::ResolvingJob;

/// A piece of work.
pub(crate) enum Piece {
    /// Runs a function.
    Job(RemoteJob),
    /// Looks whether the arguments of a call are there, and runs its function.
    Resolving(ResolvingJob),
    /// Does anything else that may run user code, in these surroundings.
    Errand(Errand, Arc<Current>),
}

impl Work for Piece {
    fn run(self, executor: &Executor<Self>) {
        match self {
            Piece::Job(job) => job.run(executor),
            Piece::Resolving(job) => job.run(),
            Piece::Errand(errand, current) => within_current(&current, errand),
        }
    }

    fn refuse(self, why: WorkRefusal) {
        match self {
            Piece::Job(job) => job.refuse(why),
            Piece::Resolving(job) => job.refuse(why),
            // If somebody waits for its outcome, the drop tells them.
            Piece::Errand(errand, _) => dispose(errand),
        }
    }
}

/// The threads of a process for user code of references and channels.
pub(crate) struct RemoteHelpers {
    executor: Executor<Piece>,
    background: Arc<AsyncThread>,
    /// The surroundings of errands. An errand gives its place away while user code waits in it, as a function does: what it waits for may need
    /// the place.
    current: Arc<Current>,
}

impl RemoteHelpers {
    pub(crate) fn new(executor: &Executor<Piece>, background: &Arc<AsyncThread>) -> Self {
        let current = Current {
            owner: Arc::new(()),
            place: Arc::new(executor.clone()),
            outer: None,
        };
        RemoteHelpers {
            executor: executor.clone(),
            background: Arc::clone(background),
            current: Arc::new(current),
        }
    }
}

impl Helpers for RemoteHelpers {
    fn run(&self, errand: Errand) {
        let current = Arc::clone(&self.current);
        self.executor.submit(Piece::Errand(errand, current));
    }

    fn wake(&self, waker: Waker) {
        self.background.wake(waker);
    }

    fn have_ended(&self) -> bool {
        self.executor.is_stopped()
    }
}
