//! The end of a process of this host that is no child of this one.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::Interest;

use super::watched::watch;

/// A process that is to be watched, as it was named: if it ends, its number is given to no other one as long as this exists.
pub(crate) struct WatchedProcess(OwnedFd);

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
            Ok(pidfd) => Ok(WatchedProcess(pidfd)),
            Err(rustix::io::Errno::SRCH) => Err(io::ErrorKind::NotFound.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until the process has ended. Must be awaited on a reactor.
    ///
    /// # Errors
    /// The reactor takes no further descriptor.
    pub(crate) async fn ended(self) -> io::Result<()> {
        let watched = watch(Arc::new(self.0), Interest::READABLE).map_err(|error| error.into_parts().1)?;
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
        child.kill().unwrap();
        let reactor = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .unwrap();
        reactor.block_on(process.ended()).unwrap();
        child.wait().unwrap();
        for pid in [child.id(), 0, u32::MAX] {
            let found = WatchedProcess::find(pid).map(|_| ());
            assert_eq!(found.unwrap_err().kind(), io::ErrorKind::NotFound);
        }
    }
}
