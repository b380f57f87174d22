//! The process at the other end of a Unix socket, for channels of tensors on devices.
#![allow(unsafe_code)] // one system call through libc

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The process that has connected a socket, or that listens at its other end, and its user. The pid is 0 if that process
/// is outside this one's namespace of pids, so the two are not asked for by `rustix`, whose pids are never 0.
fn peer(socket: impl AsFd) -> io::Result<libc::ucred> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut bytes = libc::socklen_t::try_from(size_of::<libc::ucred>()).unwrap_or(0);
    let (socket, option) = (socket.as_fd().as_raw_fd(), libc::SO_PEERCRED);
    let (to, length) = (&raw mut peer, &raw mut bytes);
    // SAFETY: both pointers lead to values that live until the call has returned; the kernel writes at most `bytes`
    // bytes, the length of the first, which is made of integers alone.
    match unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, option, to.cast(), length) } {
        0 => Ok(peer),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Checks that a process of this user is at the other end of a socket, and that it is the process `pid` if that is
/// given. A process outside this one's namespace of pids is known by its user alone.
///
/// # Errors
/// [`io::ErrorKind::PermissionDenied`] for any other process, and the errors of the system.
pub(crate) fn check(socket: impl AsFd, pid: Option<u32>) -> io::Result<()> {
    let user = rustix::process::geteuid().as_raw();
    match is_expected(&peer(socket)?, user, pid) {
        true => Ok(()),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

fn is_expected(peer: &libc::ucred, user: u32, pid: Option<u32>) -> bool {
    peer.uid == user && (peer.pid == 0 || pid.is_none_or(|pid| u32::try_from(peer.pid) == Ok(pid)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_known_by_its_user_and_by_its_pid_if_that_can_be_seen() {
        let peer = |pid, uid| libc::ucred { pid, uid, gid: 1000 };
        assert!(is_expected(&peer(7, 1000), 1000, Some(7)));
        assert!(is_expected(&peer(7, 1000), 1000, None));
        assert!(is_expected(&peer(0, 1000), 1000, Some(7)));
        assert!(!is_expected(&peer(8, 1000), 1000, Some(7)));
        assert!(!is_expected(&peer(7, 1001), 1000, Some(7)));
        assert!(!is_expected(&peer(0, 1001), 1000, Some(7)));
        assert!(!is_expected(&peer(7, 0), 1000, None), "root is another user");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no sockets")]
    fn the_system_says_who_is_there() {
        let (here, _there) = std::os::unix::net::UnixStream::pair().unwrap();
        check(&here, Some(std::process::id())).unwrap();
        assert!(check(&here, Some(std::process::id() + 1)).is_err());
    }
}
