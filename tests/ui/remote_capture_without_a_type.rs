use selvedge::prelude::*;

fn main() {
    let scale = 2.0;
    let _ = remote_fn!([scale] |x: f64| -> f64 { scale * x });
}
