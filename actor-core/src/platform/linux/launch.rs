//! The launch of a worker process on this host.
//!
//! The link is passed as the child's standard input. So no descriptor has to be made inheritable in the driver (it
//! would leak into any process that the user starts at that moment), and the child is made by `posix_spawn`, which does
//! not copy the driver's page tables. The worker moves the link to another descriptor and puts `/dev/null` in its place
//! before anything else runs.

use std::io;
#[cfg(feature = "hosts")]
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, Command, Stdio};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::child::Unwatched;
use crate::flags;
use crate::worker::launch::{Contact, Launched, LaunchedChild, NotAllowed};
use crate::worker::{ENV_DEPTH, ENV_DRIVER, ENV_FD};

/// Whether this system has worker processes.
pub(crate) fn supported() -> Result<(), NotAllowed> {
    Ok(())
}

/// Returns a function that adds the failed operation to an error of the system.
fn about(what: &'static str) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// Returns the command for a worker and the driver's end of the link. The only argument is a name for `ps`, because
/// the worker never reaches `main`.
fn command(name: &str, env: &[(String, String)], depth: u32) -> io::Result<(Command, UnixStream)> {
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
        .env(ENV_DEPTH, depth.to_string())
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // The user's flags are for the graphs of this program, not for the graphs of its workers.
    flags::ALL.iter().for_each(|name| {
        command.env_remove(name);
    });
    Ok((command, ours))
}

/// Starts a process for worker `name` at a depth among workers that start workers. The start may take any time.
pub(crate) fn launch(name: &str, env: &[(String, String)], depth: u32) -> io::Result<Launched> {
    let (command, stream) = command(name, env, depth)?;
    let (child, _) = spawn(command).map_err(|error| {
        let what = match error.kind() {
            io::ErrorKind::NotFound => "starting /proc/self/exe (is /proc mounted?)",
            _ => "starting /proc/self/exe",
        };
        about(what)(error)
    })?;
    let contact = Contact::Pair(stream);
    Ok(Launched { child, contact })
}

/// Starts a program that becomes a worker, or leads to one, and writes `input` to its standard input, which is returned: its
/// drop closes it. The start may take any time.
#[cfg(feature = "hosts")]
pub(crate) fn launch_command(
    mut command: Command,
    input: &[u8],
) -> io::Result<(LaunchedChild, Option<ChildStdin>)> {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Ctrl-C is for the driver, which decides what becomes of its workers: `ssh` would end by it.
        .process_group(0);
    flags::ALL.iter().for_each(|name| {
        command.env_remove(name);
    });
    let program = command.get_program().to_string_lossy().into_owned();
    let named = |error: io::Error| io::Error::new(error.kind(), format!("starting `{program}`: {error}"));
    let (child, mut stdin) = spawn(command).map_err(named)?;
    if let Some(stdin) = &mut stdin {
        // A process that has ended reads nothing, and its end is noticed.
        let _ = stdin.write_all(input);
    }
    Ok((child, stdin))
}

/// Starts a process, and returns the pipe to its standard input if it has one.
fn spawn(mut command: Command) -> io::Result<(LaunchedChild, Option<ChildStdin>)> {
    let mut child = command.spawn()?;
    // The command holds the worker's end of a socket. As long as that is open, the death of the worker does not end the
    // stream.
    drop(command);
    let stdin = child.stdin.take();
    match (open_pidfd(child.id()), child.stdout.take(), child.stderr.take()) {
        (Ok(pidfd), Some(stdout), Some(stderr)) => {
            let child = LaunchedChild {
                pid: child.id(),
                process: Unwatched::new(pidfd),
                stdout: stdout.into(),
                stderr: stderr.into(),
            };
            Ok((child, stdin))
        }
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

fn open_pidfd(pid: u32) -> io::Result<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("a child with an impossible pid"))?;
    let opened = pidfd_open(pid, PidfdFlags::empty()).map_err(io::Error::from);
    opened.map_err(about(
        "pidfd_open, with which workers are watched (Linux 5.4 or later)",
    ))
}
