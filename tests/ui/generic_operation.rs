use selvedge::prelude::*;

struct A;

#[actor]
impl A {
    pub fn new() -> Self {
        A
    }

    pub fn f<T>(&mut self, x: T) -> u32 { 1 }
}

fn main() {}
