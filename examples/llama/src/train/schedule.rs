//! The learning rate of each step: it rises from almost zero, so that the optimizer learns the size of the gradients
//! before it trusts them, and then falls along half a cosine (Loshchilov and Hutter, 2017).

use std::f64::consts::PI;

/// The learning rates of all steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    /// The number of steps.
    pub steps: usize,
    /// The number of steps in which the rate rises.
    pub warm_up: usize,
    /// The largest rate.
    pub rate_max: f64,
}

impl Schedule {
    /// Returns the rate of a step, counted from 0; it is never 0 within the steps.
    pub fn rate(&self, step: usize) -> f64 {
        if step < self.warm_up {
            return self.rate_max * (step + 1) as f64 / self.warm_up as f64;
        }
        let rest = self.steps.saturating_sub(self.warm_up).max(1);
        let done = (step - self.warm_up) as f64 / rest as f64;
        self.rate_max * (1.0 + (PI * done.min(1.0)).cos()) / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::Schedule;

    #[test]
    fn the_rate_rises_to_its_maximum_and_falls_to_nothing() {
        let schedule = Schedule {
            steps: 110,
            warm_up: 10,
            rate_max: 2.0,
        };
        let rates: Vec<f64> = (0..=110).map(|step| schedule.rate(step)).collect();
        assert_eq!((rates[0], rates[9], rates[10], rates[60]), (0.2, 2.0, 2.0, 1.0));
        assert!(rates[10..].windows(2).all(|pair| pair[1] < pair[0]));
        assert!(rates[109] > 0.0 && rates[110] == 0.0);
    }

    #[test]
    fn a_schedule_without_room_still_has_rates() {
        let schedule = Schedule {
            steps: 0,
            warm_up: 0,
            rate_max: 1.0,
        };
        assert_eq!((schedule.rate(0), schedule.rate(7)), (1.0, 0.0));
    }
}
