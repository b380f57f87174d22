//! Shared cores: the core that a thread runs on, and a way to leave a core that the thread shares with the thread it
//! waits for.
//!
//! The scheduler may keep two threads that exchange messages on one core while another core is idle: each thread sleeps
//! while the other works, so no core looks overloaded. Such a pair pays for a context switch at every message, which
//! costs ten times as much as a message between two cores.

use std::time::{Duration, Instant};

use crate::wait::spin_budget::SpinBudget;

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

/// Moves a thread to another core if threads of its own core keep waking it.
#[derive(Debug, Default)]
pub struct Mover {
    /// The number of consecutive waits on a shared core, and the time at which the first of them ended.
    shared: Option<(u32, Instant)>,
    /// The time at which this thread was last moved.
    moved: Option<Instant>,
}

/// The number of consecutive waits on a shared core after which a thread is moved: more than a coincidence.
const WAITS: u32 = 32;

/// The longest average wait for which a thread is moved. Exchanges that take longer gain little from a second core.
const SHORT: Duration = Duration::from_micros(20);

/// The shortest time between two moves. If the other cores are busy too, the scheduler brings the thread back, and
/// another move at once would not help.
const PAUSE: Duration = Duration::from_millis(10);

impl Mover {
    /// Records a wait of this thread, and moves the thread if it has shared its core too often. A moved thread spins
    /// for its next input again. If it slept, the scheduler would wake it on its old core, because an idle virtual core
    /// looks to the scheduler like a core that the host has taken away.
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

/// Moves this thread to another core that it may use, and then restores the set of cores that it may use. A thread that
/// is bound to one core stays there. Cores that a control group adds later are not in the restored set.
fn leave_core() {
    use rustix::thread::{sched_getaffinity, sched_setaffinity};
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

    #[test]
    fn only_many_waits_in_a_row_on_a_shared_core_move_a_thread() {
        use crate::wait::waiting::Waiting;

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
        // A start in the future makes the waits count as short, however slow this machine is: the elapsed time
        // saturates at 0.
        let later = Instant::now() + Duration::from_secs(3600);
        mover.shared = Some((WAITS, later));
        mover.waited(&budget);
        assert!(mover.moved.is_some());
        assert_eq!(budget.waiting(), spins, "a moved thread spins again");
        assert!(mover.shared.is_none(), "counting begins anew");
    }
}
