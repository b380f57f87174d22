use selvedge::prelude::*;

#[actor]
trait Op {
    type Out;
    fn apply(&mut self, x: i64) -> i64;
}

fn main() {}
