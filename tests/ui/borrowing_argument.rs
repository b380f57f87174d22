use selvedge::prelude::*;

struct A;

#[actor]
impl A {
    pub fn new() -> Self {
        A
    }

    pub fn f(&mut self, x: Vec<&str>) -> usize {
        x.len()
    }
}

fn main() {}
