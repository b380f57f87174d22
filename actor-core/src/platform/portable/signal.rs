//! Signals that end processes, of which there are none.

use crate::death::Exit;

/// Returns the name of a signal; none is known.
pub(crate) fn name(_: i32) -> Option<&'static str> {
    None
}

/// Whether a process was ended by force.
pub(crate) fn is_forced(_: &Exit) -> bool {
    false
}
