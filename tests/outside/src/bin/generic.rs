//! A generic actor: one block for all types, and a generic handle.
use std::ops::AddAssign;

use selvedge::prelude::*;

struct Sum<T>(T);

#[actor(for(Sum<u32>, Sum<f64>))]
impl<T: AddAssign + Wire> Sum<T> {
    pub fn new(start: T) -> Self {
        Sum(start)
    }

    pub fn add(&mut self, x: T) -> T {
        self.0 += x;
        self.0.clone()
    }
}

fn main() -> selvedge::Result<()> {
    let runtime = Runtime::new();
    let whole: SumHandle<u32> = runtime.spawn::<Sum<u32>>("whole", (1,)).in_process()?;
    let real: SumHandle<f64> = runtime.spawn::<Sum<f64>>("real", (0.5,)).in_thread()?;
    let graph = runtime.compile(|(n, x): (Edge<u32>, Edge<f64>)| (whole.add(&n), real.add(&x)))?;
    assert_eq!(graph.run((2, 1.0))?, (3, 1.5));

    // An instance that `for(..)` does not name lives in this process only, and the error says what to write.
    let small = runtime.spawn::<Sum<i8>>("small", (1,)).inline()?;
    assert_eq!(small.call().add(2).wait()?, 3);
    let refused = runtime.spawn::<Sum<i8>>("small", (1,)).in_process().unwrap_err();
    assert!(refused.to_string().contains("#[actor(for(Sum<i8>))]"));
    Ok(())
}
