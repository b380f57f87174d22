//! Which core a thread runs on, and how a thread leaves a core that it shares with the one it waits for.
//!
//! The scheduler may keep two threads that hand work to and fro on one core while another core is idle: each sleeps while the
//! other works, so no core looks crowded. Such a pair pays a change of threads at every hand-over, which costs ten times what
//! two cores pay.

use std::time::{Duration, Instant};

use crate::spin_budget::SpinBudget;

/// The core that this thread runs on. The kernel may move the thread at any time.
#[cfg(not(miri))]
#[inline]
pub(crate) fn current_core() -> u32 {
    rustix::thread::sched_getcpu() as u32
}

/// Miri has no cores: each thread counts as one.
#[cfg(miri)]
pub(crate) fn current_core() -> u32 {
    thread_local!(static THREAD: u8 = const { 0 });
    THREAD.with(|thread| std::ptr::from_ref(thread).addr() as u32)
}

/// Moves a thread off a core where it keeps being woken by another thread of that core.
#[derive(Debug, Default)]
pub struct Mover {
    /// Waits on a shared core, one after the other, and when the first of them ended.
    shared: Option<(u32, Instant)>,
    /// When this thread was moved last.
    moved: Option<Instant>,
}

/// So many waits on a shared core in a row are no accident.
const WAITS: u32 = 32;

/// Hand-overs that take longer than this on average gain little from a core of their own.
const SHORT: Duration = Duration::from_micros(20);

/// Where the other cores are busy too, the scheduler brings the thread back, and it is left alone for so long.
const PAUSE: Duration = Duration::from_millis(10);

impl Mover {
    /// Takes note of a wait of this thread, and moves the thread where the core was shared too often. A moved thread spins for its
    /// next input again: while it slept, the scheduler would wake it on its old core, for a virtual core that is idle looks to the
    /// scheduler like one that the host has taken away.
    #[inline]
    pub fn waited(&mut self, budget: &SpinBudget) {
        if budget.shares_core() {
            self.shared(budget);
        } else if self.shared.is_some() {
            self.shared = None;
        }
    }

    #[cold]
    fn shared(&mut self, budget: &SpinBudget) {
        let now = Instant::now();
        let (waits, since) = self.shared.unwrap_or((0, now));
        if waits < WAITS {
            self.shared = Some((waits + 1, since));
            return;
        }
        self.shared = None;
        let short = now.duration_since(since) <= SHORT * WAITS;
        let rested = self.moved.is_none_or(|moved| now.duration_since(moved) >= PAUSE);
        if short && rested {
            self.moved = Some(now);
            leave_core();
            budget.set_shares_core(false);
        }
    }
}

/// Moves this thread to another core that it may use, and then lets it use the cores again that it might use before. A thread that
/// is bound to one core stays there. Cores that a control group adds later are not among them.
fn leave_core() {
    use rustix::thread::{sched_getaffinity, sched_setaffinity};
    let Ok(allowed) = sched_getaffinity(None) else {
        return;
    };
    let mut others = allowed;
    others.unset(current_core() as usize);
    if others.count() > 0 && sched_setaffinity(None, &others).is_ok() {
        // A thread that may not use its old cores again still runs.
        let _ = sched_setaffinity(None, &allowed);
    }
}

/// For tests: the cores that this thread may use, and how it stays on one of them.
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

    #[test]
    fn only_many_waits_in_a_row_on_a_shared_core_move_a_thread() {
        use crate::waiting::Waiting;

        let mut mover = Mover::default();
        let spins = Waiting::SpinThenPark(SHORT);
        let budget = SpinBudget::new(spins);
        budget.set_shares_core(true);
        for _ in 0..WAITS {
            mover.waited(&budget);
        }
        budget.set_shares_core(false);
        mover.waited(&budget);
        assert!(mover.shared.is_none(), "one wait for another core ends the row");
        budget.set_shares_core(true);
        for _ in 0..WAITS {
            mover.waited(&budget);
        }
        assert!(mover.moved.is_none());
        assert_ne!(budget.waiting(), spins);
        // As if the waits had been short, however slow this machine is: no time passes since an hour from now.
        let later = Instant::now() + Duration::from_secs(3600);
        mover.shared = Some((WAITS, later));
        mover.waited(&budget);
        assert!(mover.moved.is_some());
        assert_eq!(budget.waiting(), spins, "a moved thread spins again");
        assert!(mover.shared.is_none(), "counting begins anew");
    }
}
