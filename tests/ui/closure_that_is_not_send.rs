use std::rc::Rc;

use selvedge::prelude::*;

struct A(Rc<u8>);

#[actor(local)]
impl A {
    pub fn f(&mut self, x: u8) -> u8 {
        x + *self.0
    }
}

fn main() {
    let runtime = Runtime::new();
    let shared = Rc::new(1);
    let _a = runtime.spawn_with("a", move || A(shared)).in_thread();
}
