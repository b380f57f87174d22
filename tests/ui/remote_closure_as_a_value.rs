use selvedge::prelude::*;

fn main() {
    let _ = remote_fn!(f(1));
}
