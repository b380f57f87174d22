use selvedge::prelude::*;

#[remote]
fn square(x: f64) -> f64 {
    x * x
}

fn main() -> Result<()> {
    Runtime::new().call(square::remote("three")).wait()?;
    Ok(())
}
