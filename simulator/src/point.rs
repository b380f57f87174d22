//! A point in a stream that others can wait for: reached once, and then for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::clock::VectorClock;

static NEXT: AtomicU64 = AtomicU64::new(1);

/// A point in a stream.
#[derive(Debug)]
pub(crate) struct Point {
    pub(crate) id: u64,
    reached: Mutex<Option<VectorClock>>,
}

impl Point {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Point {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            reached: Mutex::new(None),
        })
    }

    /// Returns the clock of the point; `None` before it is reached.
    pub(crate) fn reached(&self) -> Option<VectorClock> {
        self.reached.lock().clone()
    }

    pub(crate) fn is_reached(&self) -> bool {
        self.reached.lock().is_some()
    }

    /// Marks the point as reached. The engine wakes its waiters.
    pub(crate) fn reach(&self, clock: &VectorClock) {
        *self.reached.lock() = Some(clock.clone());
    }
}
