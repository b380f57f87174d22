use std::rc::Rc;

use selvedge::prelude::*;

fn main() {
    let _ = constant(Rc::new(1));
}
