//! The cases of `selvedge bench`, for criterion.

use criterion::{BenchmarkId, Criterion, Throughput};
use selvedge::{Placement, Wait};
use selvedge_benches::{Build, criterion, latency, or_exit, setups, throughput};
use selvedge_cli::shapes::Setup;
use selvedge_cli::shapes::graphs::{self, Wide};

fn main() {
    let mut criterion = criterion();
    small(&mut criterion, "echo", 1, graphs::chain);
    small(&mut criterion, "chain", 4, graphs::chain);
    small(&mut criterion, "fanout", 4, graphs::fanout);
    payload(&mut criterion);
    pipeline(&mut criterion);
    compile(&mut criterion);
    criterion.final_summary();
}

fn small(criterion: &mut Criterion, case: &str, actors: usize, build: Build) {
    for (name, setup) in setups(actors + 1) {
        let setup = Setup { actors, ..setup };
        latency(criterion, BenchmarkId::new(case, name), &setup, build);
    }
}

fn payload(criterion: &mut Criterion) {
    for (name, setup) in setups(2) {
        for payload_bytes in [4 << 10, 1 << 20, 16 << 20] {
            let setup = Setup {
                payload_bytes,
                ..setup
            };
            let id = BenchmarkId::new(format!("payload/{name}"), payload_bytes);
            latency(criterion, id, &setup, graphs::payload);
        }
    }
}

fn pipeline(criterion: &mut Criterion) {
    let actors = 2;
    for (name, setup) in setups(actors + 1) {
        for inflight in [1, 10, 32] {
            let setup = Setup {
                actors,
                inflight,
                ..setup
            };
            let id = BenchmarkId::new(format!("pipeline/{name}"), inflight);
            throughput(criterion, id, &setup, graphs::chain);
        }
    }
}

fn compile(criterion: &mut Criterion) {
    let setup = Setup {
        actors: 4,
        ..Setup::new(Placement::Thread, Wait::Auto)
    };
    let mut group = criterion.benchmark_group("compile");
    group.sample_size(10);
    for tasks in [100, 1_000, 10_000] {
        group.throughput(Throughput::Elements(tasks as u64));
        group.bench_function(BenchmarkId::new("thread", tasks), |bencher| {
            let wide = or_exit(Wide::new(&setup, tasks));
            bencher.iter(|| or_exit(wide.compile()))
        });
    }
    group.finish();
}
