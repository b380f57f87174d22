use selvedge::prelude::*;

fn main() -> Result<()> {
    let (scale, offset) = (2.0, 1.0);
    let line = remote_fn!([scale: f64] |x: f64| -> f64 { scale * x + offset });
    Runtime::new().call(line.remote(3.0)).wait()?;
    Ok(())
}
