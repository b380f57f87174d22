use selvedge::prelude::*;

#[remote]
fn largest<T: Ord>(values: Vec<T>) -> Option<T> {
    values.into_iter().max()
}

fn main() {}
