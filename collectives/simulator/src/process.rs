//! Whether another process lives.
#![allow(unsafe_code)] // two system calls

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A process that is watched. It is the one it was when the watch began, whoever gets its number later.
#[derive(Debug)]
pub(crate) struct Watch(Option<OwnedFd>);

impl Watch {
    /// Begins to watch; a process that is not there counts as dead.
    pub(crate) fn new(pid: u32) -> Self {
        // SAFETY: two numbers, and a descriptor or -1 comes back.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0);
        // SAFETY: just made, and nobody else has it.
        Watch(fd.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Whether it has ended.
    pub(crate) fn is_dead(&self) -> bool {
        let Some(pidfd) = &self.0 else {
            return true;
        };
        let mut poll = libc::pollfd {
            fd: pidfd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry, which outlives the call; a timeout of zero waits for nothing.
        unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
    }
}
