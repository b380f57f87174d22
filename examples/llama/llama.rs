//! Generates text with a Llama-architecture model.

fn main() {
    selvedge::init();
}
