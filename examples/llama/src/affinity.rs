//! A thread that keeps to a core. Where stages compute at the same time the kernel may put who is woken beside who wakes it, so that
//! two stages take turns on one core while the other core is idle.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Binds the calling thread to one of the cores that it may use, counted from 0 and around. Where the system refuses it goes on
/// anywhere, as before: only its speed depends on it.
pub(crate) fn keep_to(core: usize) {
    let Ok(allowed) = sched_getaffinity(None) else {
        return;
    };
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|core| allowed.is_set(*core))
        .collect();
    let Some(own) = cores.get(core % cores.len().max(1)) else {
        return;
    };
    let mut only = CpuSet::new();
    only.set(*own);
    let _ = sched_setaffinity(None, &only);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_to_one_of_its_cores() {
        let kept = std::thread::spawn(|| {
            let before = sched_getaffinity(None).unwrap();
            keep_to(7);
            let after = sched_getaffinity(None).unwrap();
            (before, after)
        });
        let (before, after) = kept.join().unwrap();
        assert_eq!(after.count(), 1);
        assert!((0..CpuSet::MAX_CPU).all(|core| before.is_set(core) || !after.is_set(core)));
    }
}
