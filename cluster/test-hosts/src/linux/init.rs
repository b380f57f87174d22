//! Process 1 of a host: this program, which becomes an init before `main`.
//!
//! The processes of a pid namespace end with its process 1. The kernel kills the init when the thread of its host ends, and with
//! it all that runs on the host, also after a `kill -9` of the test.
#![allow(
    unsafe_code,
    reason = "a hook in .init_array, and signals to all processes of a namespace"
)]

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, ChildStdout, Command, Stdio, exit};

use rustix::mount::{MountFlags, mount};
use rustix::process::{Signal, set_parent_process_death_signal};

use super::process::SharedChild;
use super::waiting::readable;

/// The variable that makes a program an init, if it is process 1.
const ENV_INIT: &str = "SELVEDGE_TEST_HOST_INIT";
/// The answer to an order, and the word that the init is ready.
const DONE: u8 = b'+';

/// An order to an init.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Order {
    /// Stop all other processes of the host.
    Freeze = b'f',
    /// Let them go on.
    Thaw = b't',
}

/// The init of a host, as its parent has it.
pub(crate) struct Init {
    process: SharedChild,
    orders: ChildStdin,
    answers: ChildStdout,
}

impl Init {
    /// Starts an init. Call within the host; the host dies with the calling thread.
    ///
    /// # Errors
    /// The process cannot be started, or cannot mount `/proc`.
    pub(crate) fn start() -> io::Result<Self> {
        let mut child = Command::new("/proc/self/exe")
            .arg0("init of a test host")
            .env(ENV_INIT, "")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let process = SharedChild::new(child)?;
        let (Some(orders), Some(answers)) = pipes else {
            return Err(io::Error::other("a pipe is missing"));
        };
        let mut init = Init {
            process,
            orders,
            answers,
        };
        init.heard()?;
        Ok(init)
    }

    /// Gives an order, and waits until it is obeyed.
    ///
    /// # Errors
    /// The init is dead.
    pub(crate) fn obey(&mut self, order: Order) -> io::Result<()> {
        self.orders.write_all(&[order as u8])?;
        self.heard()
    }

    fn heard(&mut self) -> io::Result<()> {
        readable(&self.answers)?;
        let mut answer = [0];
        self.answers.read_exact(&mut answer)?;
        match answer {
            [DONE] => Ok(()),
            _ => Err(ErrorKind::InvalidData.into()),
        }
    }

    /// Kills the init, and so the whole host.
    pub(crate) fn kill(&self) {
        self.process.kill();
    }

    /// Waits until nothing of the host is left. The children of this process within the host are to be reaped before.
    ///
    /// # Errors
    /// The wait is too long.
    pub(crate) fn reap(&self) -> io::Result<()> {
        self.process.reap().map(|_| ())
    }
}

impl Drop for Init {
    fn drop(&mut self) {
        self.kill();
        // An error is a fault of the system.
        let _ = self.reap();
    }
}

extern "C" fn become_init() {
    if std::process::id() == 1 && std::env::var_os(ENV_INIT).is_some() {
        let code = match prepare().and_then(|()| serve()) {
            Ok(()) => 0,
            Err(error) => {
                eprintln!("the init of a test host: {error}");
                1
            }
        };
        exit(code);
    }
}

#[used]
// SAFETY: `.init_array` holds pointers to functions that the C library calls once, before `main`, with (argc, argv, envp). A C
// function that takes no arguments may be called with these. It is `extern "C"`, so a panic inside aborts instead of unwinding
// into the C library.
#[unsafe(link_section = ".init_array")]
static BECOME_INIT: extern "C" fn() = become_init;

fn prepare() -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // Orphans are reaped by the kernel.
    // SAFETY: SIG_IGN is a valid disposition, and no handler is replaced, because a fresh process has none.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", flags, None)?;
    Ok(())
}

/// Obeys orders until there is nobody who gives them. The first answer says that the init is ready; if the parent died before it
/// could be noticed, there is nobody to take the answer, and the init ends.
fn serve() -> io::Result<()> {
    let (mut orders, mut answers) = (io::stdin().lock(), io::stdout().lock());
    let mut order = [0];
    loop {
        answers.write_all(&[DONE])?;
        answers.flush()?;
        if orders.read(&mut order)? == 0 {
            return Ok(());
        }
        let signal = match order {
            [byte] if byte == Order::Freeze as u8 => libc::SIGSTOP,
            _ => libc::SIGCONT,
        };
        // SAFETY: the call touches no memory. From process 1 it goes to all other processes of the namespace, at one moment.
        unsafe { libc::kill(-1, signal) };
    }
}
