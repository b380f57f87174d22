//! Cores: the one that a thread runs on, and the ones that it may use.

use rustix::thread::{sched_getaffinity, sched_setaffinity};

/// The core that this thread runs on. The kernel may move the thread at any time.
#[cfg(not(miri))]
#[inline]
pub(crate) fn current_core() -> u32 {
    rustix::thread::sched_getcpu() as u32
}

/// Miri has no cores: each thread counts as a core of its own.
#[cfg(miri)]
pub(crate) fn current_core() -> u32 {
    thread_local!(static THREAD: u8 = const { 0 });
    THREAD.with(|thread| std::ptr::from_ref(thread).addr() as u32)
}

/// Moves this thread to another core that it may use, and then restores the set of cores that it may use. A thread that
/// is bound to one core stays there. Cores that a control group adds later are not in the restored set.
pub(crate) fn leave_core() {
    let Ok(allowed) = sched_getaffinity(None) else {
        return;
    };
    let mut others = allowed;
    others.unset(current_core() as usize);
    if others.count() > 0 && sched_setaffinity(None, &others).is_ok() {
        // If this fails, the thread still runs, on the other cores.
        let _ = sched_setaffinity(None, &allowed);
    }
}

/// Helpers for tests: the cores that this thread may use, and a way to pin the thread to one of them.
#[cfg(all(test, not(miri)))]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
pub(crate) mod pinned {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    pub(crate) fn cores() -> Vec<usize> {
        let allowed = sched_getaffinity(None).unwrap();
        (0..CpuSet::MAX_CPU)
            .filter(|core| allowed.is_set(*core))
            .collect()
    }

    pub(crate) fn stay_on(core: usize) {
        let mut one = CpuSet::new();
        one.set(core);
        sched_setaffinity(None, &one).unwrap();
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_leaves_its_core_and_keeps_the_right_to_all() {
        let before = rustix::thread::sched_getaffinity(None).unwrap();
        leave_core();
        let after = rustix::thread::sched_getaffinity(None).unwrap();
        assert!(before == after);
    }

    #[test]
    fn a_thread_that_is_bound_to_one_core_stays_there() {
        std::thread::spawn(|| {
            pinned::stay_on(current_core() as usize);
            let one = rustix::thread::sched_getaffinity(None).unwrap();
            leave_core();
            assert!(rustix::thread::sched_getaffinity(None).unwrap() == one);
        })
        .join()
        .unwrap();
    }
}
