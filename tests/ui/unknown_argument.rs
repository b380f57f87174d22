use selvedge::prelude::*;

struct A;

#[actor(remote)]
impl A {
    pub fn new() -> Self {
        A
    }
}

fn main() {
    let _a: AHandle = Runtime::new().spawn::<A>("a", ()).inline().unwrap();
}
