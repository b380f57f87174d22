use selvedge::prelude::*;

struct Model;

#[remote]
fn size(model: &Model, scale: u32) -> u32 {
    let Model = model;
    scale
}

fn main() {}
