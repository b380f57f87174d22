//! Pace of steps: limits the cost of a step, so that no step takes longer than its goal. A plain value without a clock.
//!
//! A step takes a fixed time, and some more for each unit of cost; neither is known. The cost of the next step is that
//! of the last one times `goal / time`, as in a proportional controller. If time grows with cost, the cost converges to
//! the value at which a step takes exactly the goal.
//!
//! - `PACE-1`: only measured steps count: the budget is at most four times the largest cost that was tried.
//! - `PACE-2`: a step of less than half of the budget that was short enough is no evidence about larger steps, and
//!   changes nothing.
//! - `PACE-3`: whatever the times, each member of a step gets 1 and all together get [`PIECE_MIN`] more, so that every
//!   member makes progress.

use std::time::Duration;

/// The budget of the first step.
const FIRST: usize = 16;

/// The minimum that is left for the members that ask for much, when every step takes too long.
const PIECE_MIN: usize = 8;

pub(crate) struct Pace {
    goal: Option<Duration>,
    most: usize,
    budget: usize,
}

impl Pace {
    /// Creates a controller for steps that cost at most `most`, and take no longer than `goal`, if there is one.
    pub(crate) fn new(goal: Option<Duration>, most: usize) -> Self {
        let budget = FIRST.min(most);
        Pace { goal, most, budget }
    }

    /// Returns the maximum cost of a step that delays no other member.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Returns the maximum cost of a step of `members` members.
    pub(crate) fn budget(&self, members: usize) -> usize {
        let least = members.saturating_add(PIECE_MIN);
        self.goal
            .map_or(self.most, |_| self.budget.max(least).min(self.most))
    }

    /// Records that a step of this cost took `time`.
    pub(crate) fn took(&mut self, cost: usize, time: Duration) {
        let Some(goal) = self.goal else { return };
        if cost < self.budget / 2 && time <= goal {
            return;
        }
        let next = cost as f64 * (goal.as_secs_f64() / time.as_secs_f64().max(1e-9));
        // The cast saturates: a float that is out of range becomes the nearest number.
        self.budget = (next as usize).clamp(1, self.budget.saturating_mul(2).min(self.most));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOAL: Duration = Duration::from_millis(1000);

    /// Returns a model whose steps take `own`, plus `each` for a unit of cost, in milliseconds.
    fn model(own: f64, each: f64) -> impl Fn(usize) -> Duration {
        move |cost| Duration::from_secs_f64((own + each * cost as f64) / 1e3)
    }

    #[test]
    fn steps_come_to_take_as_long_as_they_should() {
        for (own, each, rests_at) in [
            (150.0, 12.0, 70),
            (0.0, 27.0, 37),
            (450.0, 1.0, 550),
            (1.0, 0.01, 2048),
        ] {
            let (mut pace, time) = (Pace::new(Some(GOAL), 2048), model(own, each));
            for _ in 0..40 {
                let cost = pace.budget(2);
                pace.took(cost, time(cost));
            }
            let cost = pace.budget(2);
            assert!(
                cost.abs_diff(rests_at) <= 1 + rests_at / 50,
                "{own} + {each}: {cost}"
            );
            assert!(time(cost) <= GOAL + GOAL / 50);
        }
    }

    #[test]
    fn small_steps_say_nothing_of_large_ones() {
        let (mut pace, time) = (Pace::new(Some(GOAL), 2048), model(150.0, 12.0));
        for _ in 0..40 {
            let cost = pace.budget(2);
            pace.took(cost, time(cost));
        }
        let before = pace.budget(2);
        for _ in 0..100 {
            pace.took(2, time(2));
        }
        assert_eq!(pace.budget(2), before);
        // A large step, in which one member has the model for itself, is evidence and changes the budget.
        pace.took(256, time(256));
        assert!(pace.budget(2).abs_diff(before) < before / 3);
    }

    #[test]
    fn a_model_that_becomes_slow_is_noticed_whatever_its_steps_cost() {
        let mut pace = Pace::new(Some(GOAL), 256);
        for _ in 0..40 {
            let cost = pace.budget(2);
            pace.took(cost, model(1.0, 0.01)(cost));
        }
        assert_eq!(pace.budget(2), 256);
        for cost in [2, 30, 256] {
            let mut slow = Pace::new(Some(GOAL), 256);
            slow.budget = pace.budget;
            slow.took(cost, model(1200.0, 40.0)(cost));
            assert!(slow.budget(2) <= 30.max(cost / 8), "{cost}: {}", slow.budget(2));
        }
    }

    #[test]
    fn everybody_goes_on_where_no_step_is_short_enough() {
        let mut pace = Pace::new(Some(Duration::ZERO), 512);
        for time in [Duration::ZERO, GOAL, Duration::MAX] {
            pace.took(100, time);
            assert_eq!((pace.budget(2), pace.budget(300)), (10, 308));
        }
        assert_eq!(pace.budget(510), 512, "no more than the most");
    }

    #[test]
    fn without_a_goal_a_step_gets_all() {
        let mut pace = Pace::new(None, 256);
        pace.took(100, GOAL);
        assert_eq!(pace.budget(5), 256);
    }
}
