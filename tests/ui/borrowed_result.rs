use selvedge::prelude::*;

struct A;

#[actor]
impl A {
    pub fn new() -> Self {
        A
    }

    pub fn f(&mut self, x: u32) -> &u32 { todo!() }
}

fn main() {}
