use selvedge::prelude::*;

struct Model(f64);

impl Model {
    #[remote]
    fn infer(&self, x: f64) -> f64 {
        self.0 * x
    }
}

fn main() {}
