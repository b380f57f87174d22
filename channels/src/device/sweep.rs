//! Giving back what was dropped early.

use super::channel::sweep_kept;
use super::gpu::sweep_contexts;

/// Gives back what was dropped while a device was still busy with it, or another process had it open, as far as that is over
/// by now, which whoever takes or drops something of a device does too; and the pinned memory of the host that is kept for the next
/// copies, for which a driver may wait until its device is idle.
pub fn sweep() {
    sweep_kept();
    sweep_contexts();
}
