//! The liveness of another process.
#![allow(unsafe_code)] // two system calls

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A watched process. The watch stays with the process, even if its number is reused later.
#[derive(Debug)]
pub(crate) struct Watch(Option<OwnedFd>);

impl Watch {
    /// Begins to watch a process; a process that does not exist counts as dead.
    pub(crate) fn new(pid: u32) -> Self {
        // SAFETY: the arguments are two numbers; the call returns a descriptor or -1.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0);
        // SAFETY: the descriptor was just created, and this is its only owner.
        Watch(fd.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Whether the process has died, or the kernel has begun to end it: its connections break then, and everybody else
    /// learns of its death only when all its memory and files are gone.
    pub(crate) fn is_ending(&self, pid: u32) -> bool {
        /// `PF_EXITING`.
        const EXITING: u64 = 4;
        let flags = || {
            let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
            let name_end = stat.windows(2).rposition(|bytes| bytes == b") ")?;
            let fields = String::from_utf8(stat.get(name_end + 2..)?.to_vec()).ok()?;
            fields.split(' ').nth(6)?.parse::<u64>().ok()
        };
        self.is_dead() || flags().is_none_or(|flags| flags & EXITING != 0)
    }

    /// Whether the process has died.
    pub(crate) fn is_dead(&self) -> bool {
        let Some(pidfd) = &self.0 else {
            return true;
        };
        let mut poll = libc::pollfd {
            fd: pidfd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: the array has one entry, which outlives the call; with a timeout of zero the call returns at once.
        unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
    }
}
