//! The launch of a worker process.
//!
//! The link is passed as the child's standard input. So no descriptor has to be made inheritable in the driver (it
//! would leak into any process that the user starts at that moment), and the child is made by `posix_spawn`, which does
//! not copy the driver's page tables. The worker moves the link to another descriptor and puts `/dev/null` in its place
//! before anything else runs. Processes must be launched on a launcher's thread: a worker is killed when the thread
//! that started it ends.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};

use crate::flags;
use crate::worker::premain::initialised;
use crate::worker::{DEPTH_MAX, ENV_DEPTH, ENV_DRIVER, ENV_FD};

/// A process that was started and has not sent its hello yet.
pub(crate) struct Launched {
    pub(crate) pid: u32,
    pub(crate) process: Unwatched,
    pub(crate) stream: UnixStream,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

/// A child that is not watched yet. Its drop kills and reaps the child.
pub(crate) struct Unwatched(Option<OwnedFd>);

impl Unwatched {
    /// Returns the child's pidfd. The caller watches the child from now on.
    pub(crate) fn watch(&mut self) -> Option<OwnedFd> {
        self.0.take()
    }
}

impl Drop for Unwatched {
    fn drop(&mut self) {
        if let Some(pidfd) = self.0.take() {
            // Both calls fail only if the child is dead and reaped already.
            let _ = pidfd_send_signal(&pidfd, Signal::KILL);
            let _ = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED);
        }
    }
}

/// Returns a function that adds the failed operation to an error of the system.
fn about(what: &'static str) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// The reason that no worker may be started here.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAllowed {
    /// The feature `premain` is off and `main` has not called [`init`](crate::init): workers would run `main` again.
    #[error(
        "no worker may start before `selvedge::init()`: without the feature `premain`, call it first in `main`"
    )]
    NotInitialised,
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

/// A way to start the processes of workers.
pub(crate) trait Launcher: Send + Sync {
    /// Starts a process for worker `name`, with `env` added to its environment. The start may take any time.
    fn launch(&self, name: &str, env: &[(String, String)]) -> io::Result<Launched>;
}

/// The launcher of processes on this host, which run this executable again.
pub(crate) struct LocalLauncher {
    /// The depth of the workers among workers that start workers.
    depth: u32,
}

impl LocalLauncher {
    /// Returns the launcher, if this process may start workers.
    pub(crate) fn new() -> Result<Self, NotAllowed> {
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

    /// Returns the command for a worker and the driver's end of the link. The only argument is a name for `ps`, because
    /// the worker never reaches `main`.
    fn command(&self, name: &str, env: &[(String, String)]) -> io::Result<(Command, UnixStream)> {
        let (ours, theirs) = UnixStream::pair().map_err(about("a socket pair for its link"))?;
        let mut command = Command::new("/proc/self/exe");
        // The name may contain any bytes, such as a path that is not UTF-8, except NUL.
        let mut program = std::env::args_os().next().unwrap_or_else(|| "selvedge".into());
        program.push(format!(": worker {name}").replace('\0', "?"));
        command
            .arg0(program)
            .envs(env.iter().map(|(key, value)| (key, value)))
            .env(ENV_FD, "0")
            .env(ENV_DRIVER, std::process::id().to_string())
            .env(ENV_DEPTH, self.depth.to_string())
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // The user's flags are for the graphs of this program, not for the graphs of its workers.
        flags::ALL.iter().for_each(|name| {
            command.env_remove(name);
        });
        Ok((command, ours))
    }
}

impl Launcher for LocalLauncher {
    fn launch(&self, name: &str, env: &[(String, String)]) -> io::Result<Launched> {
        let (mut command, stream) = self.command(name, env)?;
        let mut child = command
            .spawn()
            .map_err(about("starting /proc/self/exe (is /proc mounted?)"))?;
        // The command holds the worker's end of the socket. As long as it is open, the death of the worker does not end the
        // stream.
        drop(command);
        match (open_pidfd(child.id()), child.stdout.take(), child.stderr.take()) {
            (Ok(pidfd), Some(stdout), Some(stderr)) => Ok(Launched {
                pid: child.id(),
                process: Unwatched(Some(pidfd)),
                stream,
                stdout: stdout.into(),
                stderr: stderr.into(),
            }),
            (opened, ..) => {
                // The worker cannot be watched, so it must not live. Both calls concern a child of this process that is not
                // reaped yet.
                child.kill()?;
                child.wait()?;
                Err(opened
                    .err()
                    .unwrap_or_else(|| io::Error::other("a pipe of the worker is missing")))
            }
        }
    }
}

fn open_pidfd(pid: u32) -> io::Result<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("a child with an impossible pid"))?;
    let opened = pidfd_open(pid, PidfdFlags::empty()).map_err(io::Error::from);
    opened.map_err(about(
        "pidfd_open, with which workers are watched (Linux 5.4 or later)",
    ))
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
