use selvedge::prelude::*;

fn square(x: f64) -> f64 {
    x * x
}

fn main() -> Result<()> {
    Runtime::new().call(square::remote(3.0)).wait()?;
    Ok(())
}
