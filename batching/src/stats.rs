//! Counters of a batcher, for monitoring.

use std::time::Duration;

/// Counts of values by powers of two: bucket `k` counts the values of at most 2^k and of more than 2^(k-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Histogram {
    /// The buckets. The last one counts all larger values too.
    pub buckets: [u64; 40],
    /// The sum of all values.
    pub sum: u64,
    /// The number of values.
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

    /// Returns the bound that a share `q` (0 to 1) of the values does not exceed; `None` if no value was counted.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let wanted = (q.clamp(0.0, 1.0) * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let index = self.buckets.iter().position(|count| {
            seen += count;
            seen >= wanted
        })?;
        Some(1 << index)
    }

    /// Returns the mean; 0 if no value was counted.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64
    }
}

/// The counters of a batcher: its work so far and the items that it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Items that wait.
    pub queued: usize,
    /// Items that are being executed, or sequences that stay.
    pub in_flight: usize,
    /// Executions begun, retries included.
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
    /// Items refused because the queue was full.
    pub refused: u64,
    /// The number of items in each execution.
    pub sizes: Histogram,
    /// Microseconds from an item's submission to its first execution.
    pub waits_us: Histogram,
}

/// The recent rate of items.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rate {
    /// The time for one item, in seconds.
    per_item: Option<f64>,
}

impl Rate {
    /// Records that `items` items took the time `took`.
    pub(crate) fn record(&mut self, items: usize, took: Duration) {
        let seen = took.as_secs_f64() / items.max(1) as f64;
        // An eighth of each new value: the mean follows changes quickly, and an outlier changes it little.
        self.per_item = Some(self.per_item.map_or(seen, |known| known + (seen - known) / 8.0));
    }

    /// Returns the time that `items` items take; one second if no time is known.
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
