//! Counters of a batcher, for who watches it.

use std::time::Duration;

/// Counts of values by powers of two: bucket `k` counts those of at most 2^k, and more than 2^(k-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// The last one counts whatever is larger too.
    pub buckets: [u64; 40],
    /// Of all values.
    pub sum: u64,
    /// Values counted.
    pub count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            buckets: [0; 40],
            sum: 0,
            count: 0,
        }
    }
}

impl Histogram {
    pub(crate) fn record(&mut self, value: u64) {
        let index = (u64::BITS - value.saturating_sub(1).leading_zeros()) as usize;
        let last = self.buckets.len() - 1;
        if let Some(bucket) = self.buckets.get_mut(index.min(last)) {
            *bucket += 1;
        }
        self.sum = self.sum.saturating_add(value);
        self.count += 1;
    }

    /// The bound that a share `q` (0 to 1) of the values does not exceed; `None` where nothing was counted.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let wanted = (q.clamp(0.0, 1.0) * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let index = self.buckets.iter().position(|count| {
            seen += count;
            seen >= wanted
        })?;
        Some(1 << index)
    }

    /// The mean; 0 where nothing was counted.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64
    }
}

/// What a batcher has done and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Items that wait.
    pub queued: usize,
    /// Items that are being executed, or sequences that stay.
    pub in_flight: usize,
    /// Executions begun, further tries included.
    pub executions: u64,
    /// Executions that did not end in time and still occupy the graph.
    pub overdue: usize,
    /// Items accepted.
    pub accepted: u64,
    /// Items answered with a value.
    pub answered: u64,
    /// Items answered with an error, those that expired included.
    pub failed: u64,
    /// Items whose deadline passed.
    pub expired: u64,
    /// Items whose ticket was dropped before they were answered.
    pub withdrawn: u64,
    /// Items refused because as many waited as may.
    pub refused: u64,
    /// Items of an execution.
    pub sizes: Histogram,
    /// Microseconds from an item's submission to its first execution.
    pub waits_us: Histogram,
}

/// How fast items have gone through of late.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rate {
    /// Of one item, in seconds.
    per_item: Option<f64>,
}

impl Rate {
    /// So many items took so long.
    pub(crate) fn record(&mut self, items: usize, took: Duration) {
        let seen = took.as_secs_f64() / items.max(1) as f64;
        // An eighth of each new value: quick to follow, slow to be fooled.
        self.per_item = Some(self.per_item.map_or(seen, |known| known + (seen - known) / 8.0));
    }

    /// How long so many items take; a second where nothing is known.
    pub(crate) fn time_for(&self, items: usize) -> Duration {
        let seconds = self.per_item.map_or(1.0, |per_item| per_item * items as f64);
        Duration::from_secs_f64(seconds.clamp(0.001, 3600.0))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]

    use super::*;

    #[test]
    fn buckets_are_powers_of_two() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        for value in [0, 1, 2, 3, 4, 5, u64::MAX] {
            histogram.record(value);
        }
        assert_eq!(histogram.buckets[..4], [2, 1, 2, 1]);
        assert_eq!(histogram.buckets[39], 1);
        assert_eq!(
            (histogram.quantile(0.0), histogram.quantile(0.5)),
            (Some(1), Some(4))
        );
        assert_eq!(histogram.quantile(1.0), Some(1 << 39));
    }

    #[test]
    fn the_rate_follows_what_is_measured() {
        let mut rate = Rate::default();
        assert_eq!(rate.time_for(10), Duration::from_secs(1));
        rate.record(4, Duration::from_secs(2));
        assert_eq!(rate.time_for(10), Duration::from_secs(5));
        for _ in 0..200 {
            rate.record(1, Duration::ZERO);
        }
        assert_eq!(rate.time_for(10), Duration::from_millis(1));
    }
}
