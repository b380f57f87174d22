//! The shapes of `selvedge bench` as criterion benches: `cargo bench -p selvedge-benches`, or one of them by `-- echo`.
//!
//! Criterion compares means from one commit to the next; for percentiles, and for the machine's limit beside each
//! figure, use `selvedge bench`.

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use selvedge::{Placement, Wait};
use selvedge_cli::shapes::{Drive, Setup};

/// A function that builds a shape.
pub type Build = fn(&Setup) -> anyhow::Result<Box<dyn Drive>>;

/// Returns criterion, set to short runs: a row takes about three seconds.
pub fn criterion() -> Criterion {
    Criterion::default()
        .sample_size(30)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args()
}

/// Returns the placements and wait policies with which a small message is measured. Spinning is left out if it needs
/// more cores than the machine has for `lanes` lanes.
pub fn setups(lanes: usize) -> Vec<(String, Setup)> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut all = vec![("inline".to_owned(), Setup::new(Placement::Inline, Wait::Auto))];
    for placement in [Placement::Thread, Placement::Process] {
        for (name, wait) in [("spin", Wait::Spin), ("park", Wait::Park)] {
            if wait == Wait::Park || lanes <= cores {
                all.push((format!("{placement}/{name}"), Setup::new(placement, wait)));
            }
        }
    }
    all
}

/// Measures one execution at a time.
pub fn latency(criterion: &mut Criterion, id: BenchmarkId, setup: &Setup, build: Build) {
    let mut graph = None;
    let mut group = criterion.benchmark_group("latency");
    group.throughput(Throughput::Bytes(setup.payload_bytes as u64));
    group.bench_function(id, |bencher| {
        let graph = graph.get_or_insert_with(|| or_exit(build(setup)));
        bencher.iter(|| or_exit(graph.once()))
    });
    group.finish();
}

/// Measures many executions in flight: the time of a row of them, divided by their number.
pub fn throughput(criterion: &mut Criterion, id: BenchmarkId, setup: &Setup, build: Build) {
    let mut graph = None;
    let mut group = criterion.benchmark_group("throughput");
    group.throughput(Throughput::Elements(1));
    group.bench_function(id, |bencher| {
        let graph = graph.get_or_insert_with(|| or_exit(build(setup)));
        bencher.iter_custom(|count| row(graph.as_ref(), count))
    });
    group.finish();
}

fn row(graph: &dyn Drive, count: u64) -> Duration {
    let mut left = count;
    let mut more = || {
        let some = left > 0;
        left = left.saturating_sub(1);
        some
    };
    let start = Instant::now();
    or_exit(graph.stream(&mut more, &mut || ()));
    start.elapsed()
}

/// Returns the value. An error is printed and ends the process with status 1: criterion cannot receive one, and would time a failure like a
/// result.
pub fn or_exit<T>(done: anyhow::Result<T>) -> T {
    done.unwrap_or_else(|error| {
        eprintln!("failed: {error:#}");
        std::process::exit(1)
    })
}
