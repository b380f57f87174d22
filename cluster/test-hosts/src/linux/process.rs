//! Processes of hosts.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, ExitStatus};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};

use super::waiting::{LIMIT, readable};

/// A process of a host. It goes on when this value is dropped, and ends with its host.
pub struct Process {
    /// Its standard input, if that was asked to be a pipe.
    pub stdin: Option<ChildStdin>,
    /// Its standard output, if that was asked to be a pipe.
    pub stdout: Option<ChildStdout>,
    /// Its standard error, if that was asked to be a pipe.
    pub stderr: Option<ChildStderr>,
    child: Arc<SharedChild>,
}

impl Process {
    pub(crate) fn new(child: Arc<SharedChild>) -> Self {
        let mut inner = child.lock();
        let (stdin, stdout, stderr) = (inner.stdin.take(), inner.stdout.take(), inner.stderr.take());
        drop(inner);
        Process {
            stdin,
            stdout,
            stderr,
            child,
        }
    }

    /// The pid by which processes outside of hosts know it.
    pub fn pid(&self) -> u32 {
        self.child.pid
    }

    /// The pid by which the processes of its host know it.
    ///
    /// # Errors
    /// The process is dead and reaped.
    pub fn pid_inside(&self) -> io::Result<u32> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let pids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let innermost = pids.and_then(|pids| pids.split_whitespace().next_back()?.parse().ok());
        innermost.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Waits for the end of the process.
    ///
    /// # Errors
    /// `TimedOut` if that does not come within two minutes.
    pub fn wait(&self) -> io::Result<ExitStatus> {
        self.child.reap()
    }

    /// Waits until the process is stopped, or dead: after [`Host::freeze`](super::Host::freeze), for example. A process that has
    /// just begun to start another one may stop only when that one goes on.
    ///
    /// # Errors
    /// The process is reaped. `TimedOut` if it goes on for two minutes.
    pub fn wait_for_stop(&self) -> io::Result<()> {
        let (say, said) = mpsc::sync_channel(1);
        let child = Arc::clone(&self.child);
        // Linux has no deadline for this wait. It ends at the latest with the process, and so with the host.
        thread::Builder::new().name("stop".into()).spawn(move || {
            let stop = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            // An error means that nobody waits any more.
            let _ = say.send(waitid(WaitId::PidFd(child.pidfd.as_fd()), stop));
        })?;
        let stopped = said.recv_timeout(LIMIT);
        stopped.map_err(|_| io::ErrorKind::TimedOut)??;
        Ok(())
    }

    /// Sends SIGKILL to the process. Its kernel closes its connections, as after any other end of a process.
    pub fn kill(&self) {
        self.child.kill();
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("pid", &self.pid())
            .finish_non_exhaustive()
    }
}

/// A child of this process within a host: the part that the host shares with whoever has started it.
///
/// The host has to reap it in the end: the kernel lets the host's process 1 end only after all processes of the namespace.
pub(crate) struct SharedChild {
    pid: u32,
    pidfd: OwnedFd,
    child: Mutex<Child>,
}

impl SharedChild {
    /// Takes a child that is not reaped.
    pub(crate) fn new(mut child: Child) -> io::Result<Self> {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let opened = pid.ok_or(io::ErrorKind::InvalidData.into());
        match opened.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).map_err(io::Error::from)) {
            Ok(pidfd) => Ok(SharedChild {
                pid: child.id(),
                pidfd,
                child: Mutex::new(child),
            }),
            Err(error) => {
                child.kill()?;
                child.wait()?;
                Err(error)
            }
        }
    }

    /// Waits for the end of the process, and reaps it. Everybody who asks learns the exit.
    pub(crate) fn reap(&self) -> io::Result<ExitStatus> {
        // A pidfd says that a process is dead before and after it is reaped.
        readable(&self.pidfd)?;
        self.lock().wait()
    }

    /// Kills the process.
    pub(crate) fn kill(&self) {
        // An error means that the process is dead already.
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
    }

    /// Whether the process is dead; then it is reaped.
    pub(crate) fn is_over(&self) -> bool {
        self.lock().try_wait().is_ok_and(|exit| exit.is_some())
    }

    fn lock(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
