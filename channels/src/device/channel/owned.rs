//! Ownership of a channel's device side.
//!
//! An event must not be destroyed, and legacy memory must not be freed, before every process that has opened it has
//! released it. The owner does not wait for that. A ring that is dropped too early is kept in this process until the
//! other processes have left or died. The next creation, opening or drop of a channel in this process releases it.

use std::sync::Arc;

use parking_lot::Mutex;

use super::handover::Offer;
use super::ring::Ring;
use crate::error::End;
use crate::memory::process::Process;
use crate::shared::Claims;

/// Rings that this process has dropped while other processes use them.
static KEPT: Mutex<Vec<(Arc<Ring>, Watching)>> = Mutex::new(Vec::new());

/// The claims of a channel's endpoints, by which the use by other processes is observed.
pub(super) struct Watching {
    claims: Claims,
    readers: usize,
}

impl Watching {
    /// Whether a living process other than this one holds an endpoint.
    fn others(&self) -> bool {
        let readers = (0..self.readers).filter_map(|index| u32::try_from(index).ok());
        let mut ends = std::iter::once(End::Writer).chain(readers.map(End::Reader));
        ends.any(|end| {
            let holder = self.claims.holder(end);
            holder.is_some_and(|process| process != Process::own() && process.is_current())
        })
    }
}

/// A ring, together with the objects that other processes need from this one.
pub(super) struct Owned {
    pub(super) ring: Arc<Ring>,
    watching: Option<Watching>,
    _offer: Option<Offer>,
}

impl Owned {
    /// Wraps a ring on which no other process depends: it is used by this process alone, or owned by another.
    pub(super) fn local(ring: Ring) -> Self {
        Owned {
            ring: Arc::new(ring),
            watching: None,
            _offer: None,
        }
    }

    /// Wraps a ring of this process that other processes open.
    pub(super) fn shared(ring: Ring, claims: Claims, offer: Option<Offer>) -> Self {
        let readers = ring.spec.readers;
        Owned {
            ring: Arc::new(ring),
            watching: Some(Watching { claims, readers }),
            _offer: offer,
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let depends = !self.ring.outlives_its_maker();
        let watching = self
            .watching
            .take()
            .filter(|watching| depends && watching.others());
        if let Some(watching) = watching {
            KEPT.lock().push((Arc::clone(&self.ring), watching));
        }
        reclaim_kept();
    }
}

/// Releases the kept rings that no other process uses any more.
pub(in crate::device) fn reclaim_kept() {
    let mut kept = KEPT.lock();
    let all = std::mem::take(&mut *kept);
    let (used, unused): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, watching)| watching.others());
    *kept = used;
    drop(kept);
    // The drop calls the driver, so it runs without the lock.
    drop(unused);
}
