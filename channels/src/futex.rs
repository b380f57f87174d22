//! Sleeping on a word until somebody changes it: `futex(2)`, or a model of it under loom.
#![allow(unsafe_code)] // one system call

#[cfg(not(loom))]
mod system {
    use std::sync::atomic::AtomicU32;
    use std::time::Instant;

    /// Sleeps while `word` holds `expected`, at most until `deadline`. May return early.
    pub(crate) fn wait(word: &AtomicU32, expected: u32, deadline: Option<Instant>, private: bool) {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = left.map(|left| libc::timespec {
            tv_sec: libc::time_t::try_from(left.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let operation = libc::FUTEX_WAIT | if private { libc::FUTEX_PRIVATE_FLAG } else { 0 };
        // SAFETY: `word` is a valid aligned u32 for the whole call, `timeout` is null or points to a timespec that
        // outlives it, and FUTEX_WAIT reads nothing else.
        unsafe {
            libc::syscall(libc::SYS_futex, word.as_ptr(), operation, expected, timeout);
        }
    }

    /// Wakes the one who sleeps on `word`.
    pub(crate) fn wake(word: &AtomicU32, private: bool) {
        let operation = libc::FUTEX_WAKE | if private { libc::FUTEX_PRIVATE_FLAG } else { 0 };
        // SAFETY: FUTEX_WAKE uses the address as a key only; `word` is valid and aligned.
        unsafe {
            libc::syscall(libc::SYS_futex, word.as_ptr(), operation, 1);
        }
    }

    #[inline]
    pub(crate) fn relax() {
        std::hint::spin_loop();
    }
}

#[cfg(not(loom))]
pub(crate) use system::{relax, wait, wake};

#[cfg(loom)]
mod model {
    use std::time::Instant;

    use loom::sync::atomic::{AtomicU32, Ordering};
    use loom::sync::{Condvar, Mutex};

    /// The kernel's side of a futex: the check of the word and the sleep are one step.
    pub(crate) struct Sleeper {
        lock: Mutex<()>,
        woken: Condvar,
    }

    impl Sleeper {
        pub(crate) fn new() -> Self {
            Sleeper {
                lock: Mutex::new(()),
                woken: Condvar::new(),
            }
        }

        pub(crate) fn wait(&self, word: &AtomicU32, expected: u32, _deadline: Option<Instant>) {
            let mut guard = self.lock.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            while word.load(Ordering::Relaxed) == expected {
                guard = self
                    .woken
                    .wait(guard)
                    .unwrap_or_else(|poisoned| poisoned.into_inner());
            }
        }

        pub(crate) fn wake(&self, _word: &AtomicU32) {
            drop(self.lock.lock());
            self.woken.notify_one();
        }
    }

    pub(crate) fn relax() {
        loom::thread::yield_now();
    }

    pub(crate) fn wait(_: &AtomicU32, _: u32, _: Option<Instant>, _: bool) {}

    pub(crate) fn wake(_: &AtomicU32, _: bool) {}
}

#[cfg(loom)]
pub(crate) use model::{Sleeper, relax, wait, wake};
