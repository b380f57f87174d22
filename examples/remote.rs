//! Remote functions: calls, closures and a scope. `cargo run -p selvedge-examples --example remote`
use selvedge::prelude::*;

#[remote]
fn inside(from: u64, to: u64) -> u64 {
    let mut state = from + 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    (from..to)
        .filter(|_| next().powi(2) + next().powi(2) <= 1.0)
        .count() as u64
}

#[remote]
fn estimate(points: u64) -> Result<f64> {
    let runtime = Runtime::current()?;
    let calls: Vec<_> = (0..8)
        .map(|i| runtime.call(inside::remote(i * points / 8, (i + 1) * points / 8)))
        .collect();
    let counts: Result<Vec<u64>, _> = calls.into_iter().map(|call| call.wait()).collect();
    Ok(4.0 * counts?.iter().sum::<u64>() as f64 / points as f64)
}

fn main() -> Result<()> {
    let runtime = Runtime::new();
    let _workers = [runtime.worker("one")?, runtime.worker("two")?]; // without them, functions run in this process
    let pi = runtime.call(estimate::remote(400_000)).wait()?;
    println!("pi is about {pi:.2}");

    let base = 10_i32;
    let power = remote_fn!([base: i32] |exponent: u32| -> i32 { base.pow(exponent) });
    let powers = runtime.scope(|scope| [1, 2].map(|exponent| scope.call(power.remote(exponent))))?;
    println!("powers of {base}: {:?}", powers.map(|power| power.take()));
    Ok(())
}
