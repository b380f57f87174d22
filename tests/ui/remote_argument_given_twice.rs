use selvedge::prelude::*;

#[remote(cpus = 1, gpus = 1, cpus = 2)]
fn total(numbers: Vec<u64>) -> u64 {
    numbers.iter().sum()
}

fn main() {}
