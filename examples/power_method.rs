//! One function for vectors of this process, of several, and in shared memory. `cargo run -p selvedge-examples --example power_method`
use selvedge::parallel::{ArrayLike, LocalMatrix, SharedArray};
use selvedge::prelude::*;

/// The greatest eigenvalue of a symmetric matrix, by von Mises's power iteration.
fn power_method<A: ArrayLike>(matrix: &A::Matrix, mut vector: A) -> Result<f64, A::Error> {
    for _ in 0..50 {
        let product = vector.times(matrix)?;
        vector = product.divided(product.norm_max()?)?;
    }
    vector.times(matrix)?.norm_max()
}

fn main() -> Result<()> {
    const LEN: usize = 100;
    // A Hilbert matrix.
    let elements: Vec<f64> = (0..LEN * LEN)
        .map(|place| 1.0 / (1 + place / LEN + place % LEN) as f64)
        .collect();
    let vector = vec![1.0; LEN];
    let runtime = Runtime::new();
    let workers = [runtime.worker("a")?, runtime.worker("b")?];
    let pool = runtime.pool_of(&workers)?;

    let rows = pool.distribute_rows(&elements, LEN)?;
    let distributed = power_method(&rows, pool.distribute(&vector)?)?;

    let rows = SharedArray::<f64>::build(&runtime, [LEN, LEN])
        .on(&workers)
        .zeroed()?;
    rows.view()?.write(0, &elements)?;
    let start = SharedArray::<f64>::build(&runtime, [LEN]).on(&workers).zeroed()?;
    start.fill(1.0)?;
    let shared = power_method(&rows, start)?;

    let local = power_method(&LocalMatrix { elements }, vector)?;
    println!("local       {local:.15}\ndistributed {distributed:.15}\nshared      {shared:.15}");
    assert!(local == distributed && local == shared);
    Ok(())
}
