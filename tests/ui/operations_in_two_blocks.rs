use selvedge::prelude::*;

struct A;

#[actor]
impl A {
    pub fn new() -> Self {
        A
    }
}

#[actor]
impl A {
    pub fn f(&mut self, x: u32) -> u32 {
        x
    }
}

fn main() {
    let _a: AHandle = Runtime::new().spawn::<A>("a", ()).in_thread().unwrap();
}
