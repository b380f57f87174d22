//! The end of a process of this host that is no child of this one.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::Interest;

use super::watched::watch;

/// A process that is watched. Its number may be another one's once it has ended; this stays its own. Clones are of the same process.
#[derive(Clone)]
pub(crate) struct WatchedProcess(Arc<OwnedFd>);

impl WatchedProcess {
    /// Finds a process.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if there is none of this number, or the system's other reasons.
    pub(crate) fn find(pid: u32) -> io::Result<Self> {
        let pid = i32::try_from(pid)
            .ok()
            .and_then(Pid::from_raw)
            .ok_or(io::ErrorKind::NotFound)?;
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => Ok(WatchedProcess(Arc::new(pidfd))),
            Err(rustix::io::Errno::SRCH) => Err(io::ErrorKind::NotFound.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the process has ended.
    pub(crate) fn has_ended(&self) -> bool {
        let mut end = [PollFd::new(&self.0, PollFlags::IN)];
        let ready = poll(&mut end, Some(&Timespec::default()));
        ready.is_ok_and(|ready| ready > 0)
    }

    /// Waits until the process has ended. Must be awaited on a reactor.
    ///
    /// # Errors
    /// The reactor takes no further descriptor.
    pub(crate) async fn ended(self) -> io::Result<()> {
        let watched = watch(self.0, Interest::READABLE).map_err(|error| error.into_parts().1)?;
        drop(watched.readable().await?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_end_of_a_process_is_seen_and_one_that_is_not_there_is_not_found() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let process = WatchedProcess::find(child.id()).unwrap();
        assert!(!process.has_ended());
        child.kill().unwrap();
        let again = process.clone();
        let reactor = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .unwrap();
        reactor.block_on(process.ended()).unwrap();
        assert!(again.has_ended());
        child.wait().unwrap();
        for pid in [child.id(), 0, u32::MAX] {
            let found = WatchedProcess::find(pid).map(|_| ());
            assert_eq!(found.unwrap_err().kind(), io::ErrorKind::NotFound);
        }
    }
}
