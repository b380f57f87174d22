use selvedge::prelude::*;

#[remote]
fn scaled(#[here] weights: &Vec<f64>, x: f64) -> f64 {
    weights.iter().sum::<f64>() * x
}

fn main() -> Result<()> {
    let runtime = Runtime::new();
    let _graph = runtime.compile(|(weights, x): (Edge<Ref<Vec<f64>>>, Edge<f64>)| scaled::bind(&weights, &x))?;
    Ok(())
}
