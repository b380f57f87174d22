//! Resets of connections.
#![allow(unsafe_code, reason = "borrows descriptors of the library by their numbers")]

use std::fs;
use std::os::fd::BorrowedFd;

use selvedge::prelude::*;

/// Resets every TCP connection of the process, and returns their number.
#[remote]
pub(crate) fn reset_all() -> Result<u64> {
    let mut resets = 0;
    for entry in fs::read_dir("/proc/self/fd")?.flatten() {
        let target = fs::read_link(entry.path()).unwrap_or_default();
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let (true, Some(number)) = (target.display().to_string().starts_with("socket:"), number) else {
            continue;
        };
        // SAFETY: the call gets a number that was open a moment ago. If another socket has it by now, that one is reset
        // instead, and links go on after that too; nothing else in this process has sockets of TCP.
        let socket = unsafe { BorrowedFd::borrow_raw(number) };
        let peer = rustix::net::getpeername(socket).ok().flatten();
        let is_tcp = peer.is_some_and(|peer| std::net::SocketAddr::try_from(peer).is_ok());
        resets += u64::from(is_tcp && rustix::net::connect_unspec(socket).is_ok());
    }
    Ok(resets)
}
