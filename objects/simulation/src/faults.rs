//! What goes wrong in a simulated network.

use std::time::Duration;

use crate::random::Random;

/// The size of a run, and its faults.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The number of processes.
    pub processes: u32,
    /// The number of objects that are created.
    pub refs: u64,
    /// The frames of a thousand that are lost.
    pub loss_per_mille: u64,
    /// The frames of a thousand that arrive twice.
    pub duplication_per_mille: u64,
    /// Whether frames overtake each other.
    pub reorders: bool,
    /// The number of processes that crash.
    pub crashes: u32,
    /// The number of processes that are declared dead although they live, and end some seconds later.
    pub mistakes: u32,
    /// The number of processes that shut down while the others run.
    pub shutdowns: u32,
}

impl Setting {
    /// The delays after which the copies of one frame arrive; none if it is lost.
    pub fn delays(&self, random: &mut Random) -> Vec<Duration> {
        let is_lost = random.happens(self.loss_per_mille);
        let is_doubled = random.happens(self.duplication_per_mille);
        let copies = if is_lost { 0 } else { 1 + u32::from(is_doubled) };
        let delay = |_| {
            // Most frames overtake few others; some are as late as copies that a router had lost and found.
            let spread = match self.reorders {
                true if random.happens(20) => 5_000_000,
                true => 50_000,
                false => 0,
            };
            Duration::from_micros(100 + random.below(spread))
        };
        (0..copies).map(delay).collect()
    }
}
