use selvedge::prelude::*;

struct A<'a>(&'a str);

#[actor]
impl<'a> A<'a> {
    pub fn new() -> Self {
        A("a")
    }
}

fn main() {}
