//! The case `pipeline` of `selvedge bench`, for criterion.

use criterion::BenchmarkId;
use selvedge_benches::{criterion, setups, throughput};
use selvedge_cli::shapes::{Setup, graphs};

const ACTORS: usize = 2;

fn main() {
    let mut criterion = criterion();
    for (name, setup) in setups(ACTORS + 1) {
        for inflight in [1, 10, 32] {
            let setup = Setup {
                actors: ACTORS,
                inflight,
                ..setup
            };
            let id = BenchmarkId::new(format!("pipeline/{name}"), inflight);
            throughput(&mut criterion, id, &setup, graphs::chain);
        }
    }
    criterion.final_summary();
}
