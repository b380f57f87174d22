//! The counters of the service, in the format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

/// Upper bounds of the buckets of all durations, in seconds: three for each power of ten, from 100 µs to 50 s.
const BOUNDS: [f64; 18] = [
    0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0,
    50.0,
];

/// A counter that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to the count.
    pub fn add(&self, count: u64) {
        // Relaxed, here and below: a figure, which orders nothing.
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Returns the count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A histogram of durations.
#[derive(Debug, Default)]
pub struct Durations {
    buckets: [Counter; BOUNDS.len()],
    micros: Counter,
    count: Counter,
}

impl Durations {
    /// Counts one duration.
    pub fn record(&self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound);
        if let Some(bucket) = bucket.and_then(|index| self.buckets.get(index)) {
            bucket.add(1);
        }
        self.micros.add(duration.as_micros() as u64);
        self.count.add(1);
    }
}

/// The counters of the service; the batchers have counters of their own.
#[derive(Debug, Default)]
pub struct Metrics {
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    /// The tokens of accepted prompts.
    pub prompt_tokens: Counter,
    /// The tokens that the model generated.
    pub completion_tokens: Counter,
    /// The times from a request's arrival to its first token.
    pub first_token: Durations,
    /// The times between the tokens of one request.
    pub between_tokens: Durations,
    /// The times from a request's arrival to the end of its answer.
    pub whole: Durations,
    /// The answers that failed after they had begun.
    pub broken_streams: Counter,
    /// The clients that went away before the end of their answer.
    pub gone: Counter,
    /// The graphs that were built after another had broken.
    pub rebuilds: Counter,
    /// The times from the report that a graph has broken until the next graph was ready.
    pub rebuild_time: Durations,
    /// The builds that failed.
    pub failed_builds: Counter,
}

impl Metrics {
    /// Counts an answer.
    pub fn answered(&self, path: &'static str, status: u16) {
        *self.requests.lock().entry((path, status)).or_default() += 1;
    }

    /// Writes all figures.
    pub fn write(&self, page: &mut Page) {
        page.family(
            "selvedge_requests_total",
            "counter",
            "Answers by address and status.",
        );
        for ((path, status), count) in self.requests.lock().iter() {
            page.sample(
                "selvedge_requests_total",
                &format!("path=\"{path}\",code=\"{status}\""),
                count,
            );
        }
        page.counter(
            "selvedge_prompt_tokens_total",
            "Tokens of accepted prompts.",
            self.prompt_tokens.get(),
        );
        page.counter(
            "selvedge_completion_tokens_total",
            "Tokens that the model chose.",
            self.completion_tokens.get(),
        );
        page.durations(
            "selvedge_first_token_seconds",
            "From arrival to the first token.",
            &self.first_token,
        );
        page.durations(
            "selvedge_between_tokens_seconds",
            "Between tokens of one answer.",
            &self.between_tokens,
        );
        page.durations(
            "selvedge_request_seconds",
            "From arrival to the end of an answer.",
            &self.whole,
        );
        page.counter(
            "selvedge_broken_streams_total",
            "Streams that ended with an error.",
            self.broken_streams.get(),
        );
        page.counter(
            "selvedge_clients_gone_total",
            "Clients that went away before the end of their answer.",
            self.gone.get(),
        );
        page.counter(
            "selvedge_rebuilds_total",
            "Graphs built after another broke.",
            self.rebuilds.get(),
        );
        page.counter(
            "selvedge_failed_builds_total",
            "Graphs that could not be built.",
            self.failed_builds.get(),
        );
        page.durations(
            "selvedge_rebuild_seconds",
            "From the break to the next graph.",
            &self.rebuild_time,
        );
    }
}

/// A page in Prometheus' text format, version 0.0.4.
#[derive(Debug, Default)]
pub struct Page(String);

impl Page {
    /// Begins a family of samples.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Writes a sample, with or without labels.
    pub fn sample(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = match labels {
            "" => writeln!(self.0, "{name} {value}"),
            _ => writeln!(self.0, "{name}{{{labels}}} {value}"),
        };
    }

    /// Writes a family that is one counter.
    pub fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "counter", help);
        self.sample(name, "", value);
    }

    /// Writes a family that is one gauge.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        self.sample(name, "", value);
    }

    /// Writes a histogram of durations.
    pub fn durations(&mut self, name: &str, help: &str, durations: &Durations) {
        let buckets = BOUNDS.iter().zip(durations.buckets.iter().map(Counter::get));
        let sum = durations.micros.get() as f64 / 1e6;
        self.histogram((name, help, ""), buckets, sum, durations.count.get());
    }

    /// Writes a histogram of `(upper bound, count)`; the buckets of Prometheus also include all smaller values.
    pub fn histogram(
        &mut self,
        (name, help, labels): (&str, &str, &str),
        buckets: impl Iterator<Item = (impl Display, u64)>,
        sum: f64,
        count: u64,
    ) {
        if !help.is_empty() {
            self.family(name, "histogram", help);
        }
        let comma = if labels.is_empty() { "" } else { "," };
        let mut below = 0;
        for (bound, count) in buckets {
            below += count;
            self.sample(
                &format!("{name}_bucket"),
                &format!("{labels}{comma}le=\"{bound}\""),
                below,
            );
        }
        self.sample(
            &format!("{name}_bucket"),
            &format!("{labels}{comma}le=\"+Inf\""),
            count,
        );
        self.sample(&format!("{name}_sum"), labels, sum);
        self.sample(&format!("{name}_count"), labels, count);
    }

    /// Returns the text of the page.
    pub fn into_text(self) -> String {
        self.0
    }
}
