use selvedge::prelude::*;

#[remote]
fn length(text: std::rc::Rc<String>) -> usize {
    text.len()
}

fn main() {}
