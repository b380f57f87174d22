use selvedge::prelude::*;

struct A;

impl A {
    pub fn new() -> Self {
        A
    }
}

#[actor]
impl A {
    pub fn f(&mut self, x: u32) -> u32 {
        x
    }
}

fn main() {}
