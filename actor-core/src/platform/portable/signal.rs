//! Signals that end processes, of which there are none.

use crate::death::Exit;

/// Returns the name of a signal; none is known.
pub(crate) fn name(_: i32) -> Option<&'static str> {
    None
}

/// The meaning of a signal, of which nothing is known.
pub(crate) fn help(_: i32) -> &'static str {
    ""
}

/// Whether a process was ended by force.
pub(crate) fn is_forced(_: &Exit) -> bool {
    false
}
