use selvedge::prelude::*;

fn main() {
    let _ = remote_fn!(|x| x + 1);
}
