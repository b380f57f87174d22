use selvedge::prelude::*;

#[remote]
struct Model;

fn main() {}
