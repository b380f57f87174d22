//! Cores: `std` does not tell them, so each thread counts as a core of its own, and no thread is moved.

/// A number that differs for each thread that runs.
pub(crate) fn current_core() -> u32 {
    thread_local!(static THREAD: u8 = const { 0 });
    THREAD.with(|thread| std::ptr::from_ref(thread).addr() as u32)
}

/// Does nothing: the scheduler decides where a thread runs.
pub(crate) fn leave_core() {}

/// Helpers for tests, as on Linux: no core is known, so no thread can be pinned.
#[cfg(all(test, not(miri)))]
pub(crate) mod pinned {
    pub(crate) fn cores() -> Vec<usize> {
        Vec::new()
    }

    pub(crate) fn stay_on(_: usize) {}
}
