use selvedge::prelude::*;

struct A<T>(T);

#[actor]
impl<T> A<T> {
    pub fn new(x: T) -> Self {
        A(x)
    }
}

fn main() {}
