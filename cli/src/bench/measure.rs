//! The measurement of a figure: repeats, samples, percentiles.
//!
//! One sample is a batch of operations that is long enough for the clock (at least 2 µs); the batch is one operation if
//! a single one is long enough. A repeat takes samples until its budget is used up; a row is the median of [`REPEATS`]
//! repeats, field by field. Limits and graphs are measured by the same function, so that a ratio compares like with
//! like.

use std::time::{Duration, Instant};

/// The number of repeats of a row. The limit and the case that it belongs to alternate, so that a slow moment affects
/// both.
pub const REPEATS: usize = 5;
/// The shortest useful sample. A shorter one would measure the clock: reading it costs 20 to 40 ns.
const SAMPLE_NS_MIN: f64 = 2_000.0;
/// The most operations in a sample.
const BATCH_MAX: u32 = 1 << 20;
/// The approximate time of one message of a stream.
const MESSAGE_NS: f64 = 100.0;
/// The most samples kept in one repeat; their memory is touched before the clock starts.
const SAMPLES_MAX: usize = 1 << 18;
/// The least time spent on the first estimate of an operation's duration.
const CALIBRATION: Duration = Duration::from_millis(5);

/// The result of one repeat, or the median of several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Operations measured.
    pub iterations: u64,
    /// The median of the samples, in nanoseconds.
    pub p50_ns: f64,
    /// The 90th percentile of the samples, in nanoseconds.
    pub p90_ns: f64,
    /// The 99th percentile of the samples, in nanoseconds.
    pub p99_ns: f64,
    /// The 99.9th percentile of the samples, in nanoseconds.
    pub p999_ns: f64,
    /// Operations per second over the whole repeat.
    pub per_second: f64,
}

impl Summary {
    /// Returns a summary of samples in nanoseconds per operation; `iterations` operations took `elapsed` in all. `None`
    /// if there are no samples.
    pub fn of_samples(mut samples: Vec<f64>, iterations: u64, elapsed: Duration) -> Option<Self> {
        samples.sort_unstable_by(f64::total_cmp);
        Some(Summary {
            iterations,
            p50_ns: percentile(&samples, 500)?,
            p90_ns: percentile(&samples, 900)?,
            p99_ns: percentile(&samples, 990)?,
            p999_ns: percentile(&samples, 999)?,
            per_second: iterations as f64 / elapsed.as_secs_f64().max(1e-9),
        })
    }

    /// Returns the median of the repeats, field by field; the iterations are added up. `None` if there are no repeats.
    pub fn median(repeats: &[Summary]) -> Option<Self> {
        let median = |field: fn(&Summary) -> f64| median(repeats.iter().map(field));
        Some(Summary {
            iterations: repeats.iter().map(|repeat| repeat.iterations).sum(),
            p50_ns: median(|repeat| repeat.p50_ns)?,
            p90_ns: median(|repeat| repeat.p90_ns)?,
            p99_ns: median(|repeat| repeat.p99_ns)?,
            p999_ns: median(|repeat| repeat.p999_ns)?,
            per_second: median(|repeat| repeat.per_second)?,
        })
    }
}

/// Returns the middle of the values (nearest rank); `None` if there are none.
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    percentile(&values, 500)
}

/// Returns the smallest sample that at least `per_mille` of 1000 samples do not exceed (nearest rank).
fn percentile(sorted: &[f64], per_mille: usize) -> Option<f64> {
    let rank = (sorted.len() * per_mille).div_ceil(1000);
    sorted.get(rank.saturating_sub(1)).copied()
}

/// The samples of one repeat during its measurement.
pub(crate) struct Samples {
    ns: Vec<f64>,
    /// The number of operations in the samples that are kept.
    iterations: u64,
    batch: u32,
    pending: u32,
    start: Instant,
    last: Instant,
}

impl Samples {
    /// Starts the clock; one operation takes about `one_ns`.
    pub(crate) fn new(one_ns: f64) -> Self {
        let batch = (SAMPLE_NS_MIN / one_ns.max(0.1))
            .ceil()
            .clamp(1.0, f64::from(BATCH_MAX)) as u32;
        Samples::of_batches(batch)
    }

    /// Starts the clock; the ticks come in bursts of `burst`, after messages that took about [`MESSAGE_NS`] each. A sample is one burst or several:
    /// one that ended within a burst would get the time of the whole burst, and the next one none of it.
    fn of_bursts(burst: usize) -> Self {
        let burst = burst.clamp(1, BATCH_MAX as usize) as u32;
        let bursts = (SAMPLE_NS_MIN / (MESSAGE_NS * f64::from(burst))).ceil().max(1.0) as u32;
        Samples::of_batches(burst.saturating_mul(bursts))
    }

    /// Starts the clock; a sample is `batch` operations.
    fn of_batches(batch: u32) -> Self {
        // The memory is written once here: the first touch of a page costs microseconds, which would appear in the
        // samples.
        let mut ns = vec![1.0_f64; SAMPLES_MAX];
        ns.clear();
        let start = Instant::now();
        Samples {
            ns,
            iterations: 0,
            batch,
            pending: 0,
            start,
            last: start,
        }
    }

    /// Counts one finished operation. After 262 144 samples no more are kept.
    pub(crate) fn tick(&mut self) {
        self.pending += 1;
        if self.pending >= self.batch && self.ns.len() < SAMPLES_MAX {
            let now = Instant::now();
            self.ns
                .push(now.duration_since(self.last).as_nanos() as f64 / f64::from(self.batch));
            self.last = now;
            self.iterations += u64::from(self.batch);
            self.pending = 0;
        }
    }

    /// Doubles the operations per sample if the last sample was far too short for the clock, because the first estimate
    /// of an operation's duration came from a slow moment.
    fn lengthen(&mut self) {
        let short = |per_operation: &f64| per_operation * f64::from(self.batch) < SAMPLE_NS_MIN / 2.0;
        if self.ns.last().is_some_and(short) {
            self.batch = self.batch.saturating_mul(2).min(BATCH_MAX);
        }
    }

    /// Whether `budget` was used up at the last sample.
    fn is_done(&self, budget: Duration) -> bool {
        self.last.duration_since(self.start) >= budget || self.ns.len() >= SAMPLES_MAX
    }

    /// Whether there is no sample yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.ns.is_empty()
    }

    /// Returns the summary of the samples.
    pub(crate) fn summary(self) -> anyhow::Result<Summary> {
        Summary::of_samples(self.ns, self.iterations, self.last.duration_since(self.start))
            .ok_or_else(|| anyhow::anyhow!("too slow for the time given: not one sample was taken"))
    }
}

/// Runs `operation` repeatedly for about `budget` and returns how long one took.
///
/// # Errors
/// The first error of `operation`.
pub fn measure(
    budget: Duration,
    mut operation: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<Summary> {
    let mut samples = Samples::new(calibrate(&mut operation)?);
    loop {
        operation()?;
        samples.tick();
        if samples.pending == 0 {
            if samples.is_done(budget) {
                return samples.summary();
            }
            samples.lengthen();
        }
    }
}

/// Runs `operation` repeatedly for about `budget`, with a pause before each time that is not measured, and returns how long it
/// took.
///
/// # Errors
/// The first error of `operation`.
pub fn measure_apart(
    budget: Duration,
    pause: Duration,
    mut operation: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<Summary> {
    let (begun, mut samples) = (Instant::now(), Vec::new());
    while begun.elapsed() < budget || samples.is_empty() {
        std::thread::sleep(pause);
        let start = Instant::now();
        operation()?;
        samples.push(start.elapsed().as_nanos() as f64);
    }
    let (count, busy) = (samples.len() as u64, samples.iter().sum::<f64>());
    let busy = Duration::from_nanos(busy as u64);
    Summary::of_samples(samples, count, busy).ok_or_else(|| anyhow::anyhow!("nothing was measured"))
}

/// Runs `send`, which sends `batch` messages, repeatedly for about `budget`, and returns how long one message took.
///
/// # Errors
/// The first error of `send`.
pub fn stream(
    budget: Duration,
    batch: usize,
    mut send: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<Summary> {
    let mut samples = Samples::of_bursts(batch);
    let end = Instant::now() + budget;
    while samples.is_empty() || Instant::now() < end {
        send()?;
        (0..batch).for_each(|_| samples.tick());
    }
    samples.summary()
}

/// Returns the approximate nanoseconds of one operation. Warms caches, page maps and branch predictors on the way.
fn calibrate(operation: &mut impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let mut count = 1_u32;
    loop {
        let start = Instant::now();
        for _ in 0..count {
            operation()?;
        }
        let elapsed = start.elapsed();
        if elapsed >= CALIBRATION || count >= 1 << 24 {
            return Ok(elapsed.as_nanos() as f64 / f64::from(count));
        }
        count *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let sorted: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(percentile(&sorted, 500), Some(100.0));
        assert_eq!(percentile(&sorted, 990), Some(198.0));
        assert_eq!(percentile(&[7.0], 990), Some(7.0));
        assert_eq!(percentile(&[], 500), None);
    }

    #[test]
    fn the_median_of_repeats_ignores_one_slow_repeat() {
        let repeat = |p50_ns| Summary {
            iterations: 10,
            p50_ns,
            p90_ns: p50_ns * 1.5,
            p99_ns: p50_ns * 2.0,
            p999_ns: p50_ns * 3.0,
            per_second: 1e9 / p50_ns,
        };
        let found = Summary::median(&[repeat(1.0), repeat(900.0), repeat(2.0)]);
        assert_eq!(
            found,
            Some(Summary {
                iterations: 30,
                p50_ns: 2.0,
                p90_ns: 3.0,
                p99_ns: 4.0,
                p999_ns: 6.0,
                per_second: 5e8
            })
        );
        assert_eq!(Summary::median(&[]), None);
    }

    #[test]
    fn a_guess_from_a_slow_moment_is_mended() {
        let mut samples = Samples::new(1e6);
        let mut batch_after = |per_operation| {
            samples.ns.push(per_operation);
            samples.lengthen();
            samples.batch
        };
        assert_eq!(batch_after(300.0), 2, "one operation is too short for the clock");
        assert_eq!(batch_after(SAMPLE_NS_MIN / 2.0), 2, "two are long enough");
        assert_eq!((0..40).map(|_| batch_after(0.0)).last(), Some(BATCH_MAX));
        assert_eq!(samples.ns.len(), 42, "none is lost");
    }

    #[test]
    fn a_sample_of_a_stream_is_whole_bursts() {
        for burst in [1, 3, 7, 19, 20, 32, 64, 1000] {
            let mut samples = Samples::of_bursts(burst);
            for sent in 1..=100 {
                let before = samples.ns.len();
                (1..burst).for_each(|_| samples.tick());
                assert_eq!(
                    samples.ns.len(),
                    before,
                    "burst {sent} of {burst} ends a sample early"
                );
                samples.tick();
            }
            assert_eq!(samples.pending as usize % burst, 0, "bursts of {burst}");
            assert!(
                f64::from(samples.batch) * MESSAGE_NS >= SAMPLE_NS_MIN,
                "bursts of {burst}"
            );
        }
        assert_eq!(Samples::of_bursts(32).batch, 32);
    }

    #[test]
    fn a_short_operation_is_measured_in_batches() {
        let mut calls = 0_u64;
        let found = measure(Duration::from_millis(5), || {
            calls += 1;
            Ok(())
        });
        let found = found.unwrap();
        assert!(
            found.iterations > 1_000 && found.iterations < calls,
            "{found:?} of {calls}"
        );
    }

    #[test]
    fn an_error_ends_the_measurement() {
        let found = measure(Duration::from_secs(60), || anyhow::bail!("broken"));
        assert_eq!(found.unwrap_err().to_string(), "broken");
    }
}
