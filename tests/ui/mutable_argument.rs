use selvedge::prelude::*;

struct A;

#[actor]
impl A {
    pub fn new() -> Self {
        A
    }

    pub fn f(&mut self, x: &mut u32) -> u32 { *x }
}

fn main() {}
