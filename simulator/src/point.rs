//! A point in a stream that others can wait for: reached once, and then for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::clock::VectorClock;

static NEXT: AtomicU64 = AtomicU64::new(1);

/// The clock and the time at which a point was reached.
#[derive(Clone, Debug)]
pub(crate) struct Reached {
    pub(crate) clock: VectorClock,
    pub(crate) at_ns: u64,
}

/// A point in a stream.
#[derive(Debug)]
pub(crate) struct Point {
    pub(crate) id: u64,
    reached: Mutex<Option<Reached>>,
}

impl Point {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Point {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            reached: Mutex::new(None),
        })
    }

    /// Returns the clock and the time of the point; `None` before it is reached.
    pub(crate) fn reached(&self) -> Option<Reached> {
        self.reached.lock().clone()
    }

    pub(crate) fn is_reached(&self) -> bool {
        self.reached.lock().is_some()
    }

    /// Marks the point as reached. The engine wakes its waiters.
    pub(crate) fn reach(&self, clock: &VectorClock, at_ns: u64) {
        *self.reached.lock() = Some(Reached {
            clock: clock.clone(),
            at_ns,
        });
    }
}
