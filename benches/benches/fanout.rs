//! The case `fanout` of `selvedge bench`, for criterion.

use criterion::BenchmarkId;
use selvedge_benches::{criterion, latency, setups};
use selvedge_cli::shapes::{Setup, graphs};

const ACTORS: usize = 4;

fn main() {
    let mut criterion = criterion();
    for (name, setup) in setups(ACTORS + 1) {
        let setup = Setup {
            actors: ACTORS,
            ..setup
        };
        latency(
            &mut criterion,
            BenchmarkId::new("fanout", name),
            &setup,
            graphs::fanout,
        );
    }
    criterion.final_summary();
}
