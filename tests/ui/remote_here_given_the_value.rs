use selvedge::prelude::*;

struct Model;

#[remote]
fn infer(#[here] _model: &Model, x: f64) -> f64 {
    x
}

fn main() -> Result<()> {
    Runtime::new().call(infer::remote(Model, 1.0)).wait()?;
    Ok(())
}
