use selvedge::prelude::*;

struct A;

#[actor]
impl A {
    pub fn new() -> Self {
        A
    }

    pub fn tick(&mut self) -> u32 { 1 }
}

fn main() {}
