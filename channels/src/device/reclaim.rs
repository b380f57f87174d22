//! The release of resources that were dropped while they were still in use.

use super::channel::reclaim_kept;
use super::gpu::reclaim_contexts;

/// Releases the resources that were dropped while a device still used them or another process still had them open, as
/// far as those uses have ended. Creating and dropping device objects does this as well.
///
/// In addition, it frees the pinned host memory that is kept for later copies. A driver may wait for that until its
/// device is idle.
pub fn reclaim() {
    reclaim_kept();
    reclaim_contexts();
}
