use selvedge::prelude::*;

struct Model;

#[remote]
fn load(path: &str) -> Result<Model> {
    assert!(!path.is_empty());
    Ok(Model)
}

fn main() {
    let _ = Runtime::new().submit(load::remote("digits"));
}
