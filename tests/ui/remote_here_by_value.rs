use selvedge::prelude::*;

struct Model;

#[remote]
fn infer(#[here] model: Model, x: f64) -> f64 {
    drop(model);
    x
}

fn main() {}
