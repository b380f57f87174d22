use selvedge::prelude::*;

trait Op {
    fn apply(&mut self, x: i64) -> i64;
}

struct A;

#[actor]
impl A {
    pub fn new() -> Self {
        A
    }
}

#[actor]
impl Op for A {
    fn apply(&mut self, x: i64) -> i64 {
        x
    }
}

fn main() {}
