//! The affinity of threads.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Returns the numbers of the cores that the calling thread may run on; empty if the system does not tell them.
pub(crate) fn allowed() -> Vec<u32> {
    let Ok(allowed) = sched_getaffinity(None) else {
        return Vec::new();
    };
    (0..CpuSet::MAX_CPU as u32)
        .filter(|core| allowed.is_set(*core as usize))
        .collect()
}

/// The pinning of the calling thread to one core.
pub(crate) struct Pinned {
    before: CpuSet,
}

impl Pinned {
    /// Pins the calling thread to a core.
    pub(crate) fn to(core: u32) -> io::Result<Self> {
        let before = sched_getaffinity(None)?;
        let mut only = CpuSet::new();
        only.set(core as usize);
        sched_setaffinity(None, &only)?;
        Ok(Pinned { before })
    }

    /// Lets the thread run on the cores that were allowed before.
    pub(crate) fn free(self) {
        // The former set is refused only if its cores are gone since; the thread then stays where it is allowed to run.
        let _ = sched_setaffinity(None, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_may_run_on_some_core() {
        assert!(!allowed().is_empty());
    }
}
