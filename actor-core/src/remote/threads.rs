//! The threads of a runtime's remote functions, counted, so that its end can wait for theirs.

use crate::boxed::boxed_run;
use std::io;
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

/// The living threads. Clones refer to the same ones.
#[derive(Clone, Default)]
pub(crate) struct Threads(Arc<Living>);

#[derive(Default)]
struct Living {
    ids: Mutex<Vec<ThreadId>>,
    changed: Condvar,
}

/// The drop takes a thread off the list.
struct Listed(Arc<Living>);

impl Drop for Listed {
    fn drop(&mut self) {
        let me = thread::current().id();
        self.0.ids.lock().retain(|id| *id != me);
        self.0.changed.notify_all();
    }
}

impl Threads {
    /// Starts a thread.
    pub(crate) fn start(&self, name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let living = Arc::clone(&self.0);
        let run = boxed_run(move || {
            let _listed = Listed(living);
            run();
        });
        // The lock is held until the thread is listed, so it cannot end before.
        let mut ids = self.0.ids.lock();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run)?;
        ids.push(thread.thread().id());
        Ok(())
    }

    /// Waits for the end of all threads but the calling one; returns whether they have ended by the deadline.
    pub(crate) fn wait_until(&self, deadline: Instant) -> bool {
        let me = thread::current().id();
        let mut ids = self.0.ids.lock();
        while ids.iter().any(|id| *id != me) {
            if self.0.changed.wait_until(&mut ids, deadline).timed_out() {
                return ids.iter().all(|id| *id == me);
            }
        }
        true
    }

    /// The number of living threads.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.ids.lock().len()
    }
}
