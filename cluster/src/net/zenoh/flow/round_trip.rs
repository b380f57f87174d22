//! The time that a fragment and its receipt take, by the formula of TCP (RFC 6298).

use std::time::Duration;

/// The time after which a fragment is sent again while nothing is known of the way.
const FIRST: Duration = Duration::from_millis(250);
const LEAST: Duration = Duration::from_millis(30);
/// The longest pause between two tries: a way that is there again is found within it.
pub(super) const MOST: Duration = Duration::from_secs(1);

/// The time there and back, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct RoundTrip {
    smoothed: Option<Duration>,
    variance: Duration,
    /// The tries in a row that nothing came back from.
    silent: u32,
}

impl RoundTrip {
    /// A fragment that was sent once is there.
    pub(super) fn measured(&mut self, time: Duration) {
        match self.smoothed {
            None => {
                self.variance = time / 2;
                self.smoothed = Some(time);
            }
            Some(smoothed) => {
                self.variance = (self.variance * 3 + smoothed.abs_diff(time)) / 4;
                self.smoothed = Some((smoothed * 7 + time) / 8);
            }
        }
    }

    /// The peer has answered.
    pub(super) fn answered(&mut self) {
        self.silent = 0;
    }

    /// A try had no answer.
    pub(super) fn unanswered(&mut self) {
        self.silent = (self.silent + 1).min(16);
    }

    /// The time after which the next try follows.
    pub(super) fn patience(&self) -> Duration {
        let known = self.smoothed.map(|smoothed| smoothed + self.variance * 4);
        let once = known.unwrap_or(FIRST).clamp(LEAST, MOST);
        once.saturating_mul(1 << self.silent).min(MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patience_grows_with_silence_up_to_a_second_and_is_back_with_an_answer() {
        let mut round_trip = RoundTrip::default();
        assert_eq!(round_trip.patience(), FIRST);
        for _ in 0..20 {
            round_trip.measured(Duration::from_millis(1));
        }
        assert_eq!(round_trip.patience(), LEAST);
        round_trip.unanswered();
        assert_eq!(round_trip.patience(), LEAST * 2);
        for _ in 0..100 {
            round_trip.unanswered();
        }
        assert_eq!(round_trip.patience(), MOST);
        round_trip.answered();
        assert_eq!(round_trip.patience(), LEAST);
    }
}
