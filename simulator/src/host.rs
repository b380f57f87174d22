//! The operations that hosts have seen to be over.
//!
//! A query or a synchronisation that returned success orders everything that it has seen before everything that is
//! enqueued later, anywhere. This is an approximation: the simulator does not know whether the enqueuing thread learned
//! of it, so a program that is correct only by luck is not reported.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::clock::{Epoch, VectorClock};
use crate::ledger;
use crate::space;

static SEEN: Mutex<Option<VectorClock>> = Mutex::new(None);
static HANDLES: AtomicU64 = AtomicU64::new(0x1000);

/// Returns a handle that no other object of this process has had. It is never an address.
pub(crate) fn fresh_handle() -> u64 {
    HANDLES.fetch_add(0x10, Ordering::Relaxed)
}

/// Notes that a host has seen everything in this clock; other processes learn it through the memory that they share.
pub(crate) fn observe(clock: &VectorClock) {
    SEEN.lock().get_or_insert_default().merge(clock);
    for allocation in space::between_processes() {
        ledger::observe(allocation.shared(), clock);
    }
}

/// Returns the operations that hosts of this process have seen.
pub(crate) fn seen() -> VectorClock {
    SEEN.lock().clone().unwrap_or_default()
}

/// Whether hosts of this process have seen the end of this operation.
pub(crate) fn has_seen(epoch: Epoch) -> bool {
    SEEN.lock().as_ref().is_some_and(|seen| seen.covers(epoch))
}
