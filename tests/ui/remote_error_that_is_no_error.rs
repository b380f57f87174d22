use selvedge::prelude::*;

struct Odd;

#[remote]
fn halved(x: u32) -> Result<u32, Odd> {
    if x % 2 == 0 { Ok(x / 2) } else { Err(Odd) }
}

fn main() {}
