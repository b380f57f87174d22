use selvedge::prelude::*;

struct A;

#[actor(more)]
impl A {
    pub fn f(&mut self, x: u32) -> u32 {
        x
    }
}

fn main() {}
