//! Cores: `std` does not tell them, so each thread counts as a core of its own, and no thread is moved.

/// A number that differs for each thread that runs.
pub(crate) fn current_core() -> u32 {
    thread_local!(static THREAD: u8 = const { 0 });
    THREAD.with(|thread| std::ptr::from_ref(thread).addr() as u32)
}

/// Does nothing: the scheduler decides where a thread runs.
pub(crate) fn leave_core() {}
