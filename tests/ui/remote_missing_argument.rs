use selvedge::prelude::*;

#[remote]
fn product(x: f64, y: f64) -> f64 {
    x * y
}

fn main() -> Result<()> {
    Runtime::new().call(product::remote(3.0)).wait()?;
    Ok(())
}
