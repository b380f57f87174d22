use selvedge::prelude::*;

#[actor]
trait Op {
    fn apply(&mut self, x: i64) -> i64;
}

fn wrong(op: &OpHandle, x: &Edge<String>) -> Edge<i64> {
    op.apply(x)
}

fn main() {}
