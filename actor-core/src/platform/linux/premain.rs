//! The start of a worker on Linux: the hook before `main` (feature `premain`), and the link that the driver has left.
//!
//! The hook before `main` makes tests, benches and examples work without set-up: under libtest, a test binary that is
//! executed again would otherwise run all its tests again. The hook runs from `.init_array`, where glibc has already
//! set up arguments, environment and threads. Link-time registries (linkme) are filled; constructors that come later in
//! the link order have not run. Rust's runtime does one thing before `main` that a worker needs, and it is done here:
//! SIGPIPE is ignored.

#![allow(
    unsafe_code,
    reason = "a hook in .init_array, a descriptor received by number, and calls that change the environment"
)]

use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use crate::worker::exit::exit_now;
use crate::worker::{ENV_DRIVER, ENV_FD};

#[cfg(feature = "premain")]
mod hook {
    extern "C" fn become_worker() {
        crate::worker::premain::init();
    }

    #[used]
    // SAFETY: `.init_array` holds pointers to functions that the C library calls once, before `main`, with (argc, argv,
    // envp). A C function that takes no arguments may be called with these. It is `extern "C"`, so a panic inside
    // aborts instead of unwinding into the C library.
    #[unsafe(link_section = ".init_array")]
    static BECOME_WORKER: extern "C" fn() = become_worker;
}

/// The link of a process that was started as a worker, or the reason that it cannot be used; `None` in other processes.
pub(crate) fn link() -> Option<Result<UnixStream, String>> {
    let value = std::env::var_os(ENV_FD)?;
    let fd = value.to_str().and_then(|text| text.parse::<i32>().ok());
    Some(match fd.map(take_link) {
        Some(Ok(stream)) => Ok(stream),
        Some(Err(error)) => Err(format!("the link (descriptor {value:?}) cannot be used: {error}")),
        None => Err(format!("{ENV_FD} is {value:?}, not a number")),
    })
}

/// Ensures that the worker dies with its driver, then takes the link from descriptor `fd`.
fn take_link(fd: i32) -> std::io::Result<UnixStream> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The driver may have died before the call above took effect; the parent is then another process.
    let driver = std::env::var(ENV_DRIVER)
        .ok()
        .and_then(|text| text.parse().ok())
        .and_then(Pid::from_raw);
    if getppid() != driver {
        exit_now(0);
    }
    ignore_pipes();
    outlive_the_group();
    for key in [ENV_FD, ENV_DRIVER] {
        // SAFETY: before `main`, or at its beginning, no other thread reads or writes the environment.
        unsafe { std::env::remove_var(key) };
    }
    // SAFETY: the call reads a descriptor's flags, or fails; it touches no memory.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open (just checked), the driver has put it there for this process, and nothing else in
    // this fresh process owns it.
    let given = unsafe { OwnedFd::from_raw_fd(fd) };
    let link = UnixStream::from(rustix::io::fcntl_dupfd_cloexec(&given, 3)?);
    // Fails unless the descriptor is a Unix socket.
    link.local_addr()?;
    if fd == 0 {
        close_stdin()?;
        std::mem::forget(given);
    }
    Ok(link)
}

/// Prepares a process that was started by a command to be a worker. Its driver may be on another host.
#[cfg(feature = "hosts")]
pub(crate) fn begin_hosted() {
    ignore_pipes();
    outlive_the_group();
}

/// Closes the standard input. Its descriptor stays open, on `/dev/null`, so that no later file gets the number 0.
pub(crate) fn close_stdin() -> std::io::Result<()> {
    let null = std::fs::File::open("/dev/null")?;
    Ok(rustix::stdio::dup2_stdin(null)?)
}

fn ignore_pipes() {
    // SAFETY: SIG_IGN is a valid disposition, and no handler is replaced, because a fresh process has none.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// Makes the worker survive signals that a terminal or a service manager sends to the whole group. The driver acts on
/// them; a worker continues until its driver ends it, or dies.
fn outlive_the_group() {
    // An empty handler, not SIG_IGN, because `exec` resets handlers: processes that user code starts can be interrupted
    // as usual.
    extern "C" fn go_on(_: libc::c_int) {}
    let go_on = go_on as extern "C" fn(libc::c_int) as libc::sighandler_t;
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler does nothing, so it may run at any moment; a fresh process has no handler that this would
        // replace.
        let before = unsafe { libc::signal(signal, go_on) };
        if before == libc::SIG_IGN {
            // A signal that was ignored from the start (`nohup`) stays ignored, for the worker's children as well.
            // SAFETY: this restores the disposition that the process began with.
            unsafe { libc::signal(signal, before) };
        }
    }
}
