use selvedge::prelude::*;

#[remote]
fn infer(#[constant] x: f64) -> f64 {
    x
}

fn main() {}
