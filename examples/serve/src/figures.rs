//! Figures on the metrics page that other parts keep: those of the batchers and of the system.

use selvedge_batching::{Histogram, Stats};

use crate::metrics::Page;
use crate::process::Holdings;

/// Writes the counters and histograms of some batchers, by name.
pub fn batchers(page: &mut Page, batchers: &[(&str, Stats)]) {
    type Figure = (&'static str, &'static str, &'static str, fn(&Stats) -> u64);
    let figures: [Figure; 10] = [
        ("queued", "gauge", "Requests that wait.", |it| it.queued as u64),
        ("running", "gauge", "Requests that are being executed.", |it| {
            it.in_flight as u64
        }),
        (
            "overdue",
            "gauge",
            "Executions that did not end in time and still occupy the graph.",
            |it| it.overdue as u64,
        ),
        ("steps_total", "counter", "Executions of the graph begun.", |it| {
            it.executions
        }),
        ("accepted_total", "counter", "Requests accepted.", |it| {
            it.accepted
        }),
        (
            "answered_total",
            "counter",
            "Requests answered with a value.",
            |it| it.answered,
        ),
        (
            "failed_total",
            "counter",
            "Requests answered with an error.",
            |it| it.failed,
        ),
        (
            "expired_total",
            "counter",
            "Requests that waited too long.",
            |it| it.expired,
        ),
        (
            "cancelled_total",
            "counter",
            "Requests whose client was gone before the answer.",
            |it| it.withdrawn,
        ),
        (
            "refused_total",
            "counter",
            "Requests that found the queue full.",
            |it| it.refused,
        ),
    ];
    for (name, kind, help, value) in figures {
        let name = format!("selvedge_{name}");
        page.family(&name, kind, help);
        for (batcher, stats) in batchers {
            page.sample(&name, &format!("batcher=\"{batcher}\""), value(stats));
        }
    }
    histograms(
        page,
        ("selvedge_batch_size", "Requests in an execution."),
        batchers,
        1.0,
        |it| &it.sizes,
    );
    let waits = (
        "selvedge_queue_wait_seconds",
        "From submission to the first execution.",
    );
    histograms(page, waits, batchers, 1e-6, |it| &it.waits_us);
}

/// Writes a histogram by powers of two for each batcher, up to the largest bucket that any batcher has used.
fn histograms(
    page: &mut Page,
    (name, help): (&str, &str),
    batchers: &[(&str, Stats)],
    unit: f64,
    of: fn(&Stats) -> &Histogram,
) {
    page.family(name, "histogram", help);
    let used = |(_, stats): &(&str, Stats)| of(stats).buckets.iter().rposition(|count| *count > 0);
    let buckets = batchers.iter().filter_map(used).max().map_or(0, |last| last + 1);
    for (batcher, stats) in batchers {
        let histogram = of(stats);
        let counted = histogram.buckets.iter().take(buckets).copied();
        let bounded = (0..)
            .zip(counted)
            .map(|(power, count)| (unit * 2f64.powi(power), count));
        let labels = format!("batcher=\"{batcher}\"");
        page.histogram(
            (name, "", &labels),
            bounded,
            unit * histogram.sum as f64,
            histogram.count,
        );
    }
}

/// Writes the system's figures for the service and its workers.
pub fn processes(page: &mut Page, own: Holdings, workers: &[Holdings]) {
    page.gauge(
        "process_resident_memory_bytes",
        "Resident memory of the service.",
        own.resident,
    );
    page.gauge(
        "process_open_fds",
        "Open descriptors of the service.",
        own.descriptors,
    );
    page.gauge("process_threads", "Threads of the service.", own.threads);
    let resident: u64 = workers.iter().map(|it| it.resident).sum();
    page.gauge(
        "selvedge_workers",
        "Worker processes of the language model.",
        workers.len(),
    );
    page.gauge(
        "selvedge_workers_resident_memory_bytes",
        "Resident memory of the workers.",
        resident,
    );
}
