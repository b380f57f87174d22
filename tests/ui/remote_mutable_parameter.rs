use selvedge::prelude::*;

#[remote]
fn clear(values: &mut Vec<u8>) {
    values.clear();
}

fn main() {}
