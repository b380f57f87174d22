//! The remote functions that list and drop copies.

use selvedge_macros::remote_below_graphs as remote;

use super::copies::{EndedValues, GlobalInfo, forget, list};

/// Lists the copies of this process.
#[remote]
pub(crate) fn list_globals() -> Vec<GlobalInfo> {
    list()
}

/// Drops the copy of values that were taken away, in this process.
#[remote]
pub(super) fn forget_global(values: EndedValues) {
    forget(&values);
}
