use selvedge::prelude::*;

struct Model(std::cell::Cell<f64>);

#[remote]
fn infer(#[here] model: &Model) -> f64 {
    model.0.get()
}

fn main() {}
