use std::rc::Rc;

use selvedge::prelude::*;

struct Keep<T>(Option<T>);

#[actor(local)]
impl<T> Keep<T> {
    pub fn swap(&mut self, x: T) -> Option<T> {
        self.0.replace(x)
    }
}

fn main() {
    let runtime = Runtime::new();
    let _keep = runtime.spawn_with("keep", || Keep::<Rc<u8>>(None)).in_thread();
}
