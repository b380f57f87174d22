use std::rc::Rc;

use selvedge::prelude::*;

struct A;

#[actor]
impl A {
    pub fn new() -> Self {
        A
    }

    pub fn with(_: Rc<u8>) -> Self {
        A
    }
}

fn main() {}
