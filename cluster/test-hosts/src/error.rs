//! The reasons why there are no hosts.

use std::io;

use thiserror::Error;

/// The reason why hosts were not made, or do not do what they were told.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HostsError {
    /// This machine cannot have test hosts, so the test is to be left out.
    #[error(transparent)]
    LeftOut(#[from] LeftOut),
    /// The system refused a step that it should not refuse.
    #[error("{what}: {error}")]
    Failed {
        /// The step.
        what: String,
        /// The error of the system.
        error: io::Error,
    },
    /// There cannot be so many hosts.
    #[error("{wanted} hosts are wanted, and there are from 1 to {most}")]
    Count {
        /// The number that was asked for.
        wanted: usize,
        /// The largest number.
        most: usize,
    },
}

/// The reason why this machine cannot have test hosts.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LeftOut {
    /// The system is not Linux.
    #[error("test hosts need Linux")]
    System,
    /// This process may not make namespaces.
    #[error("no right to make namespaces ({0}): run the test as root")]
    Namespaces(io::Error),
    /// This process cannot make TUN devices.
    #[error("no TUN devices ({0}): `modprobe tun`, and let root open /dev/net/tun")]
    Tun(io::Error),
}

#[cfg(target_os = "linux")]
impl HostsError {
    /// Returns a function that adds the failed step to an error of the system.
    pub(crate) fn of<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        move |error| HostsError::Failed {
            what: what.into(),
            error: error.into(),
        }
    }

    /// Returns a function that tells a missing right, or a kernel without the feature, from a failed step.
    pub(crate) fn or_left_out<E: Into<io::Error>>(
        what: &str,
        left_out: fn(io::Error) -> LeftOut,
    ) -> impl FnOnce(E) -> Self {
        const MISSING: [i32; 8] = [
            libc::EPERM,
            libc::EACCES,
            libc::ENOENT,
            libc::ENODEV,
            libc::ENXIO,
            libc::ENOSYS,
            libc::EINVAL,
            libc::ENOSPC,
        ];
        move |error| {
            let error = error.into();
            match error.raw_os_error().is_some_and(|code| MISSING.contains(&code)) {
                true => left_out(error).into(),
                false => HostsError::of(what)(error),
            }
        }
    }
}
