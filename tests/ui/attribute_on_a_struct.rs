use selvedge::prelude::*;

#[actor]
struct A;

fn main() {}
