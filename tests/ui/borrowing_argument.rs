use std::borrow::Cow;

use selvedge::prelude::*;

struct A;

#[actor]
impl A {
    pub fn new() -> Self {
        A
    }

    pub fn f(&mut self, x: Cow<'_, str>) -> usize {
        x.len()
    }
}

fn main() {}
