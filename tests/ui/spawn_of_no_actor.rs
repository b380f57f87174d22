//! A type without `#[actor]` is no actor.

use selvedge::prelude::*;

struct A;

impl A {
    pub fn add(&mut self, x: i64) -> i64 {
        x
    }
}

fn main() {
    let runtime = Runtime::new();
    let _b = runtime.spawn_with("b", || A);
}
