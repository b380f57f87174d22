use selvedge::prelude::*;

#[worker_init]
fn prepare(threads: usize) {
    assert!(threads > 0);
}

fn main() {}
