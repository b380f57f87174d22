use selvedge::prelude::*;

struct A;

#[actor(local)]
impl A {
    pub fn f(&mut self, x: u32) -> u32 {
        x
    }
}

fn main() {
    let runtime = Runtime::new();
    let _a = runtime.spawn_with("a", || A).in_process();
}
