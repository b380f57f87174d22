//! How long to spin before parking.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How a waiter waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Waiting {
    /// Never parks: lowest latency, one core per waiter.
    Spin,
    /// Parks at once.
    Park,
    /// Spins this long, then parks.
    SpinThenPark(Duration),
}

/// Longer than one wake-up across cores (36-39 µs on a virtual machine), so that a wait that could have ended
/// by spinning does not pay for two.
const SPIN: Duration = Duration::from_micros(100);

impl Waiting {
    /// Spins only where every one of `threads` waiters can have a core of its own.
    pub fn auto(threads: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if threads > cores {
            Waiting::Park
        } else {
            Waiting::SpinThenPark(SPIN)
        }
    }

    /// The spin budget; `None` is without end.
    pub(crate) fn budget(self) -> Option<Duration> {
        match self {
            Waiting::Spin => None,
            Waiting::Park => Some(Duration::ZERO),
            Waiting::SpinThenPark(budget) => Some(budget),
        }
    }
}
