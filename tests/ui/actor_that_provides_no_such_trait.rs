use selvedge::prelude::*;

#[actor]
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

fn op(a: &AHandle) -> OpHandle {
    a.into()
}

fn main() {}
