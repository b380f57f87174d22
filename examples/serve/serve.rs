//! Serves a language model over HTTP.

fn main() {
    selvedge::init();
}
