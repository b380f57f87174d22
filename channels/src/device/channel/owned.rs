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
use crate::shared::MappedChannel;

/// Rings that this process has dropped while other processes use them.
static KEPT: Mutex<Vec<(Arc<Ring>, MappedChannel)>> = Mutex::new(Vec::new());

/// Whether a living process other than this one holds an endpoint.
fn is_used_by_others(channel: &MappedChannel) -> bool {
    let mut ends = std::iter::once(End::Writer).chain((0..channel.spec.readers).map(End::Reader));
    ends.any(|end| {
        let holder = channel.holder(end);
        holder.is_some_and(|process| process != Process::own() && process.is_current())
    })
}

/// A ring, together with the objects that other processes need from this one.
pub(super) struct Owned {
    pub(super) ring: Arc<Ring>,
    /// The channel, by whose claims the use by other processes is observed.
    channel: Option<MappedChannel>,
    _offer: Option<Offer>,
}

impl Owned {
    /// Wraps a ring on which no other process depends: it is used by this process alone, or owned by another.
    pub(super) fn local(ring: Ring) -> Self {
        Owned {
            ring: Arc::new(ring),
            channel: None,
            _offer: None,
        }
    }

    /// Wraps a ring of this process that other processes open.
    pub(super) fn shared(ring: Ring, channel: MappedChannel, offer: Option<Offer>) -> Self {
        Owned {
            ring: Arc::new(ring),
            channel: Some(channel),
            _offer: offer,
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let depends = !self.ring.outlives_its_maker();
        let used = |channel: &MappedChannel| depends && is_used_by_others(channel);
        if let Some(channel) = self.channel.take().filter(used) {
            KEPT.lock().push((Arc::clone(&self.ring), channel));
        }
        reclaim_kept();
    }
}

/// Releases the kept rings that no other process uses any more.
pub(in crate::device) fn reclaim_kept() {
    let mut kept = KEPT.lock();
    let all = std::mem::take(&mut *kept);
    let (used, unused): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|(_, channel)| is_used_by_others(channel));
    *kept = used;
    drop(kept);
    // The drop calls the driver, so it runs without the lock.
    drop(unused);
}
