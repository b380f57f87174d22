//! Futexes of the kernel, `futex(2)`.
#![allow(unsafe_code)] // two system calls through libc, which Miri supports

use std::sync::atomic::AtomicU32;
use std::time::Instant;

/// The threads that may use a futex word.
#[derive(Clone, Copy)]
pub(crate) enum Reach {
    /// Threads of this process. This is cheaper, because the kernel does not have to look up the page.
    Process,
    /// Threads of every process that maps the memory.
    Host,
}

impl Reach {
    fn flag(self) -> libc::c_int {
        match self {
            Reach::Process => libc::FUTEX_PRIVATE_FLAG,
            Reach::Host => 0,
        }
    }
}

/// Sleeps while `word` holds `expected`, at most until `deadline`. May return early: every error of the system call
/// (interrupted, timed out, already changed) means "check again".
pub(crate) fn wait(word: &AtomicU32, expected: u32, deadline: Option<Instant>, reach: Reach) {
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    let timeout = left.map(|left| libc::timespec {
        tv_sec: libc::time_t::try_from(left.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: left.subsec_nanos().into(),
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let operation = libc::FUTEX_WAIT | reach.flag();
    // SAFETY: `word` is a valid aligned u32 for the whole call, `timeout` is null or points to a timespec that
    // outlives it, and FUTEX_WAIT reads nothing else.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), operation, expected, timeout);
    }
}

/// Wakes one thread that sleeps on `word`.
pub(crate) fn wake(word: &AtomicU32, reach: Reach) {
    let operation = libc::FUTEX_WAKE | reach.flag();
    // SAFETY: FUTEX_WAKE uses the address as a key only; `word` is valid and aligned.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), operation, 1);
    }
}

#[inline]
pub(crate) fn relax() {
    std::hint::spin_loop();
}
