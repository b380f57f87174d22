//! The launch of a worker process.
//!
//! Processes must be launched on a launcher's thread: a worker is killed when the thread that started it ends.

use std::io;
use std::time::Duration;

#[cfg(feature = "hosts")]
use selvedge_cluster::manager::ManageEvent;
#[cfg(feature = "hosts")]
use selvedge_cluster::peer;

#[cfg(feature = "hosts")]
use crate::hosts::dialing::Dialing;
#[cfg(feature = "hosts")]
use crate::hosts::guests::Guests;
use crate::platform;
use crate::platform::child::Unwatched;
use crate::platform::link::{OutputPipe, Stream};
use crate::worker::initialised::initialised;
use crate::worker::{DEPTH_MAX, ENV_DEPTH, ENV_DRIVER, ENV_FD};

/// The reason that no worker may be started here.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAllowed {
    /// The system has no worker processes; selvedge has them on Linux.
    #[error("worker processes need Linux: spawn the actor on a thread (`in_thread`) or inline")]
    NoProcesses,
    /// The feature `premain` is off and `main` has not called [`init`](crate::init): workers would run `main` again.
    #[error(
        "no worker may start before `selvedge::init()`: without the feature `premain`, call it first in `main`"
    )]
    NotInitialised,
    /// The runtime is a job of another one ([`Runtime::connect`](crate::Runtime)), and starts no processes.
    #[error(
        "a job starts no workers: call those of the runtime that it has joined, or make a `Runtime::new()` beside it"
    )]
    IsJob,
    /// The process is a worker that is nested too deeply to start workers itself.
    #[error("workers may start workers {max} deep, this process is at depth {depth}")]
    TooDeep {
        /// The depth of the current process.
        depth: u32,
        /// The depth at which a process may no longer start workers.
        max: u32,
    },
}

selvedge_channels::debug_is_report!(NotAllowed);

/// A process that was started and has not sent its hello yet.
pub(crate) struct Launched {
    pub(crate) child: LaunchedChild,
    pub(crate) contact: Contact,
}

/// A child of this process: a worker, or a program that leads to one.
pub(crate) struct LaunchedChild {
    pub(crate) pid: u32,
    pub(crate) process: Unwatched,
    pub(crate) stdout: OutputPipe,
    pub(crate) stderr: OutputPipe,
}

/// The way to a worker that was started.
pub(crate) enum Contact {
    /// The driver's end of a socket pair.
    Pair(Stream),
    /// The worker says on its standard output where it listens.
    #[cfg(feature = "hosts")]
    Announced(Box<Dialing>),
}

/// A way to start the processes of workers.
pub(crate) trait Launcher: Send + Sync {
    /// Starts a process for worker `name`, with `env` added to its environment. The start may take any time.
    fn launch(&self, name: &str, env: &[(String, String)]) -> io::Result<Launched>;

    /// The time that a process gets to say hello, for a runtime whose own limit is `hello`.
    fn time_limit(&self, hello: Duration) -> Duration {
        hello
    }

    /// The time that a process which does not end gets after SIGQUIT and before SIGKILL; `None` for one that gets no SIGQUIT.
    #[cfg(feature = "hosts")]
    fn quit_pause(&self) -> Option<Duration> {
        None
    }

    /// The workers that dial in, for a worker that is one of them; nothing is launched then.
    #[cfg(feature = "hosts")]
    fn guests(&self) -> Option<Guests> {
        None
    }

    /// The machine of the worker, as its manager calls it; `None` for this one.
    #[cfg(feature = "hosts")]
    fn place(&self) -> Option<&str> {
        None
    }

    /// Tells of an event in the life of a process that was launched. Never blocks.
    #[cfg(feature = "hosts")]
    fn tell(&self, _worker: peer::ProcessId, _event: ManageEvent) {}
}

/// The launcher of processes on this host, which run this executable again.
pub(crate) struct LocalLauncher {
    /// The depth of the workers among workers that start workers.
    depth: u32,
}

impl LocalLauncher {
    /// Returns the launcher, if this process may start workers.
    pub(crate) fn new() -> Result<Self, NotAllowed> {
        platform::launch::supported()?;
        if !initialised() {
            return Err(NotAllowed::NotInitialised);
        }
        let depth = std::env::var(ENV_DEPTH)
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(0);
        if depth >= DEPTH_MAX {
            let max = DEPTH_MAX;
            return Err(NotAllowed::TooDeep { depth, max });
        }
        Ok(Self { depth: depth + 1 })
    }
}

impl Launcher for LocalLauncher {
    fn launch(&self, name: &str, env: &[(String, String)]) -> io::Result<Launched> {
        platform::launch::launch(name, env, self.depth)
    }
}

/// Checks an environment variable for a worker; the error says what is wrong.
pub(crate) fn check_env(key: &str, value: &str) -> Result<(), &'static str> {
    if key.is_empty() || key.contains(['=', '\0']) {
        return Err("a name must be non-empty, without `=` and NUL");
    }
    if value.contains('\0') {
        return Err("a value must not contain NUL");
    }
    if [ENV_FD, ENV_DRIVER, ENV_DEPTH].contains(&key) {
        return Err("this variable is selvedge's own");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_cannot_be_set_are_refused() {
        assert!(check_env("CUDA_VISIBLE_DEVICES", "0,1").is_ok());
        for (key, value) in [("", "x"), ("A=B", "x"), ("A", "x\0"), (ENV_FD, "7")] {
            assert!(check_env(key, value).is_err(), "{key}={value}");
        }
    }
}
