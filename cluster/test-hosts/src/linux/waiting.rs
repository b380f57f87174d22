//! Waits that have an end.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// The longest wait of this package. Nothing is decided by it: a wait that reaches it is a hang, and becomes an error.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// Waits until a descriptor can be read, or has come to its end.
///
/// # Errors
/// `TimedOut` after [`LIMIT`], and the errors of the system.
pub(crate) fn readable(descriptor: impl AsFd) -> io::Result<()> {
    let deadline = Instant::now() + LIMIT;
    loop {
        let left = timespec(deadline.saturating_duration_since(Instant::now()));
        match poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A duration as the kernel takes it.
pub(crate) fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}
