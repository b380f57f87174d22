//! Alarms finer than a millisecond: none, so timers are as late as tokio's.

use std::io;
use std::time::Duration;

/// An alarm, which cannot be created.
pub(crate) enum Alarm {}

impl Alarm {
    /// Returns an error: there are no alarms.
    pub(crate) fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Waits for a time.
    #[allow(clippy::unused_async)] // as for Linux
    pub(crate) async fn after(&self, _: Duration) -> io::Result<()> {
        match *self {}
    }
}
