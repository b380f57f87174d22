use selvedge::prelude::*;

struct Model;
struct Table;

#[remote]
fn infer(#[here] _model: &Model, x: f64) -> f64 {
    x
}

fn wrong(table: &Ref<Table>) -> RemoteCall<f64> {
    infer::remote(table, 1.0)
}

fn main() {
    let _ = wrong;
}
