//! The case `payload` of `selvedge bench`, for criterion.

use criterion::BenchmarkId;
use selvedge_benches::{criterion, latency, setups};
use selvedge_cli::shapes::{Setup, graphs};

const SIZES: [usize; 3] = [4 << 10, 1 << 20, 16 << 20];

fn main() {
    let mut criterion = criterion();
    for (name, setup) in setups(2) {
        for payload_bytes in SIZES {
            let setup = Setup {
                payload_bytes,
                ..setup
            };
            let id = BenchmarkId::new(format!("payload/{name}"), payload_bytes);
            latency(&mut criterion, id, &setup, graphs::payload);
        }
    }
    criterion.final_summary();
}
