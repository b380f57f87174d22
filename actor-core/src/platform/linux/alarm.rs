//! Alarms finer than a millisecond, for a thread that runs a tokio runtime: `timerfd`.

#![allow(unsafe_code)] // registers the descriptor of a timer

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// An alarm that wakes a runtime's thread.
pub(crate) struct Alarm(AsyncFd<OwnedFd>);

impl Alarm {
    /// Creates an alarm for the present runtime.
    pub(crate) fn new() -> io::Result<Self> {
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        // SAFETY: an `OwnedFd` names one open descriptor as long as it exists, and the `AsyncFd` owns it.
        let timer =
            unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE) }.map_err(io::Error::from)?;
        Ok(Self(timer))
    }

    /// Waits for `delay`, which is less than a second.
    pub(crate) async fn after(&self, delay: Duration) -> io::Result<()> {
        let once = Itimerspec {
            it_interval: Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: Timespec {
                tv_sec: 0,
                tv_nsec: delay.subsec_nanos().into(),
            },
        };
        timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &once)?;
        let mut count = [0; 8];
        self.0
            .async_io(Interest::READABLE, |timer| {
                Ok(rustix::io::read(timer.as_fd(), &mut count)?)
            })
            .await?;
        Ok(())
    }
}
