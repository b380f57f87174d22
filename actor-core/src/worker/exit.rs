//! The ends of a worker process by its own decision: exit codes, and the exit without destructors.

use std::io::{self, Write};

pub(crate) use crate::platform::exit::exit_now;

/// The exit code of a worker that could not start.
const EXIT_UNUSABLE: i32 = 70;
/// The exit code of a worker that was told to end, and had lanes or functions that did not end in time.
pub(crate) const EXIT_STUCK: i32 = 71;

/// Ends a worker that cannot start, with a message on standard error, which the driver shows.
pub(crate) fn refuse(why: &str) -> ! {
    // Nobody may read it any more.
    let _ = writeln!(io::stderr(), "selvedge worker: {why}");
    exit_now(EXIT_UNUSABLE)
}
