//! The remote functions that list and drop copies.

use selvedge_macros::remote;

use super::copies::{GlobalInfo, forget, list};

/// Lists the copies of this process.
#[remote]
pub(crate) fn list_globals() -> Vec<GlobalInfo> {
    list()
}

/// Drops the copy of a name in this process.
#[remote]
pub(super) fn forget_global(name: String) {
    forget(&name);
}
