use selvedge::prelude::*;

struct A;

#[actor]
impl A {
    pub fn new() -> Self {
        A
    }

    pub fn f(&mut self, x: impl Copy) -> u32 { 1 }
}

fn main() {}
