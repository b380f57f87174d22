use selvedge::prelude::*;

struct A;

#[actor]
impl A {
    pub fn new() -> Self {
        A
    }

    pub fn f(&mut self, x: std::rc::Rc<String>) -> usize { x.len() }
}

fn main() {}
