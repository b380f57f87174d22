//! How a process becomes a worker: before `main` (feature `premain`), or when `main` calls [`init`].
//!
//! The pre-main hook makes tests, benches and examples work without a line of set-up: under libtest a re-executed
//! test binary would otherwise run all its tests again. It runs from `.init_array`, where glibc has already set up
//! arguments, environment and threads; link-time registries (linkme) are filled, constructors that come later in
//! the link order have not run. What Rust's runtime does before `main` and a worker needs is done here: SIGPIPE is
//! ignored.

#![allow(
    unsafe_code,
    reason = "a hook in .init_array, a descriptor received by number, env and exit calls"
)]

use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use crate::flags;
use crate::worker::{ENV_DRIVER, ENV_FD, serve};

/// The exit code of a worker that could not begin.
const EXIT_UNUSABLE: i32 = 70;
/// The exit code of a worker that was told to end, and had lanes that did not come back in time.
pub(crate) const EXIT_STUCK: i32 = 71;

#[cfg(all(feature = "premain", target_os = "linux"))]
mod hook {
    extern "C" fn become_worker() {
        super::init();
    }

    #[used]
    // SAFETY: `.init_array` holds pointers to functions that the C library calls once, before `main`, with
    // (argc, argv, envp); a C function that takes none of them is called correctly. It is `extern "C"`, so a panic
    // inside aborts instead of unwinding into the C library.
    #[unsafe(link_section = ".init_array")]
    static BECOME_WORKER: extern "C" fn() = become_worker;
}

/// Turns the process into a worker if it was started as one, and then does not return. Otherwise it looks for the flags
/// that every program understands ([`flags`](crate::flags)), and does nothing else.
///
/// With the feature `premain` (the default, on Linux) this has already happened before `main`. Without it, call
/// this first in `main`: whatever runs before also runs in every worker.
pub fn init() {
    // Relaxed: says only that this function ran, and publishes nothing.
    INITIALISED.store(true, Ordering::Relaxed);
    let Some(value) = std::env::var_os(ENV_FD) else {
        return flags::take();
    };
    let fd = value.to_str().and_then(|text| text.parse::<i32>().ok());
    match fd.map(take_link) {
        Some(Ok(stream)) => serve::serve(stream),
        Some(Err(error)) => refuse(&format!(
            "the link (descriptor {value:?}) cannot be used: {error}"
        )),
        None => refuse(&format!("{ENV_FD} is {value:?}, not a number")),
    }
}

/// [`init`] has run, before `main` or in it. What is started as a worker then becomes one.
pub(crate) fn initialised() -> bool {
    INITIALISED.load(Ordering::Relaxed)
}

static INITIALISED: AtomicBool = AtomicBool::new(false);

/// Makes sure the worker dies with its driver, then takes the link away from descriptor `fd`.
fn take_link(fd: i32) -> std::io::Result<UnixStream> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The driver may have died before the line above; then somebody else is our parent by now.
    let driver = std::env::var(ENV_DRIVER)
        .ok()
        .and_then(|text| text.parse().ok())
        .and_then(Pid::from_raw);
    if getppid() != driver {
        exit_now(0);
    }
    // SAFETY: SIG_IGN is a valid disposition and no handler of anybody is replaced: a fresh process has none.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    outlive_the_group();
    for key in [ENV_FD, ENV_DRIVER] {
        // SAFETY: before `main`, or first thing in it, no other thread reads or writes the environment.
        unsafe { std::env::remove_var(key) };
    }
    // SAFETY: asks for a descriptor's flags, or fails; touches no memory.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open (just checked), was put there for us by the driver, and nothing else in this
    // fresh process owns it.
    let given = unsafe { OwnedFd::from_raw_fd(fd) };
    rustix::net::sockopt::socket_type(&given)?;
    let link = rustix::io::fcntl_dupfd_cloexec(&given, 3)?;
    if fd == 0 {
        // Standard input stays open, on nothing, so that no later file lands on descriptor 0.
        let null = std::fs::File::open("/dev/null")?;
        rustix::stdio::dup2_stdin(null)?;
        std::mem::forget(given);
    }
    Ok(UnixStream::from(link))
}

/// What a terminal or a service manager sends to everybody at once is the driver's to act on: a worker goes on until its
/// driver ends it, or dies.
fn outlive_the_group() {
    // A handler, for it ends at `exec`: what the user's code starts can be interrupted as ever.
    extern "C" fn go_on(_: libc::c_int) {}
    let go_on = go_on as extern "C" fn(libc::c_int) as libc::sighandler_t;
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler does nothing, so it may run at any moment; a fresh process has none that it would replace.
        let before = unsafe { libc::signal(signal, go_on) };
        if before == libc::SIG_IGN {
            // What was ignored from the start (`nohup`) stays so, for the worker's children as well.
            // SAFETY: the disposition that the process began with.
            unsafe { libc::signal(signal, before) };
        }
    }
}

/// Ends a worker that cannot begin, with a sentence on standard error: the driver shows it.
pub(crate) fn refuse(why: &str) -> ! {
    eprintln!("selvedge worker: {why}");
    exit_now(EXIT_UNUSABLE)
}

/// Ends the process at once, without destructors or exit handlers of anybody.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: ends the process; there is no state to keep sound.
    unsafe { libc::_exit(code) }
}
