//! Who owns a channel's device side, and for how long.
//!
//! An event must not be destroyed, nor memory of the older kind freed, before every process that has opened them has let go.
//! Their owner waits for nobody: what is dropped too early is kept in this process until the others have left or died, and is
//! let go by whoever next makes or drops a channel here.

use std::sync::Arc;

use parking_lot::Mutex;

use super::handover::Offer;
use super::ring::Ring;
use crate::error::End;
use crate::process::Process;
use crate::shared::Claims;

/// Dropped by us, in use by others.
static KEPT: Mutex<Vec<(Arc<Ring>, Watching)>> = Mutex::new(Vec::new());

/// The ends of a channel that other processes may have.
pub(super) struct Watching {
    claims: Claims,
    readers: usize,
}

impl Watching {
    /// Whether a process other than this has an end and lives.
    fn others(&self) -> bool {
        let readers = (0..self.readers).filter_map(|index| u32::try_from(index).ok());
        let mut ends = std::iter::once(End::Writer).chain(readers.map(End::Reader));
        ends.any(|end| {
            let holder = self.claims.holder(end);
            holder.is_some_and(|process| process != Process::own() && process.is_current())
        })
    }
}

/// A ring, with what others need while this process keeps it.
pub(super) struct Owned {
    pub(super) ring: Arc<Ring>,
    watching: Option<Watching>,
    _offer: Option<Offer>,
}

impl Owned {
    /// Of this process alone, or another one's: nobody depends on it.
    pub(super) fn local(ring: Ring) -> Self {
        Owned {
            ring: Arc::new(ring),
            watching: None,
            _offer: None,
        }
    }

    /// One that others open.
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
        sweep();
    }
}

/// Lets go of what nobody uses any more.
pub(in crate::device) fn sweep() {
    let mut kept = KEPT.lock();
    let all = std::mem::take(&mut *kept);
    let (used, unused): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, watching)| watching.others());
    *kept = used;
    drop(kept);
    // Calls the driver, which nobody else should wait for.
    drop(unused);
}
