use selvedge::prelude::*;

#[remote(pure, cpus = 2)]
async fn total(numbers: Vec<u64>) -> u64 {
    numbers.iter().sum()
}

fn main() {}
