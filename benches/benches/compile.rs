//! The case `compile` of `selvedge bench`, for criterion.

use criterion::{BenchmarkId, Throughput};
use selvedge::{Placement, Wait};
use selvedge_benches::{criterion, or_exit};
use selvedge_cli::shapes::Setup;
use selvedge_cli::shapes::graphs::Wide;

const ACTORS: usize = 4;

fn main() {
    let mut criterion = criterion().sample_size(10);
    let setup = Setup {
        actors: ACTORS,
        ..Setup::new(Placement::Thread, Wait::Auto)
    };
    let mut group = criterion.benchmark_group("compile");
    for tasks in [100, 1_000, 10_000] {
        let wide = or_exit(Wide::new(&setup, tasks));
        group.throughput(Throughput::Elements(tasks as u64));
        group.bench_function(BenchmarkId::new("thread", tasks), |bencher| {
            bencher.iter(|| or_exit(wide.compile()))
        });
    }
    group.finish();
    criterion.final_summary();
}
