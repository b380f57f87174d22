use selvedge::prelude::*;

#[actor]
trait Op<T> {
    fn apply(&mut self, x: T) -> T;
}

fn main() {}
