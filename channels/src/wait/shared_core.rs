//! Shared cores: the core that a thread runs on, and a way to leave a core that the thread shares with the thread it
//! waits for.
//!
//! The scheduler may keep two threads that exchange messages on one core while another core is idle: each thread sleeps
//! while the other works, so no core looks overloaded. Such a pair pays for a context switch at every message, which
//! costs ten times as much as a message between two cores.

use std::time::{Duration, Instant};

use crate::platform::cores::leave_core;
use crate::wait::spin_budget::SpinBudget;

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

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

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
