//! The executions whose results become objects. Whoever submits a further one may wait until a result was taken: nobody else takes
//! it.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::run::engine::Engine;

/// The open objects of a graph.
#[derive(Default)]
pub(crate) struct OpenObjects {
    counts: Mutex<Counts>,
    changed: Condvar,
}

#[derive(Default)]
struct Counts {
    /// The objects whose results have not been taken.
    open: usize,
    /// The results that were taken so far.
    taken: u64,
}

impl OpenObjects {
    /// The number of results that were taken so far.
    pub(crate) fn taken(&self) -> u64 {
        self.counts.lock().taken
    }

    /// Waits until more than `taken` results were taken; returns `false` if none is open that could be, or at the deadline. Every
    /// open object ends, by its result or with its graph.
    pub(crate) fn wait_for_one(&self, taken: u64, deadline: Option<Instant>) -> bool {
        let mut counts = self.counts.lock();
        while counts.taken == taken {
            if counts.open == 0 {
                return false;
            }
            match deadline {
                Some(deadline) if self.changed.wait_until(&mut counts, deadline).timed_out() => return false,
                Some(_) => {}
                None => self.changed.wait(&mut counts),
            }
        }
        true
    }
}

/// An open object; its drop closes it.
pub(crate) struct OpenObject(Arc<Engine>);

impl OpenObject {
    pub(crate) fn new(engine: &Arc<Engine>) -> Self {
        engine.objects.counts.lock().open += 1;
        OpenObject(Arc::clone(engine))
    }
}

impl Drop for OpenObject {
    fn drop(&mut self) {
        let objects = &self.0.objects;
        {
            let mut counts = objects.counts.lock();
            counts.open = counts.open.saturating_sub(1);
            counts.taken += 1;
        }
        objects.changed.notify_all();
    }
}
