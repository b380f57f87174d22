use selvedge::prelude::*;

#[actor]
trait Merge {
    fn merge(&mut self, other: &Self);
}

fn main() {}
