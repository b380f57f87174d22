use selvedge::prelude::*;

struct Model;

#[remote]
fn load(path: &str) -> Result<Model> {
    assert!(!path.is_empty());
    Ok(Model)
}

fn main() -> Result<()> {
    Runtime::new().call(load::remote("digits")).wait()?;
    Ok(())
}
