use selvedge::prelude::*;

struct Pair(Edge<u32>, Edge<u32>);

impl selvedge::Inputs for Pair {
    type Value = (u32, u32);
}

fn main() {}
