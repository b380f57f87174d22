//! A trait of actors: a `Vec` of handles to different actors.
use selvedge::prelude::*;

#[actor]
trait Op {
    fn apply(&mut self, x: i64) -> i64;
}

struct Doubler;
struct Adder(i64);

#[actor(local)]
impl Doubler {}

#[actor]
impl Op for Doubler {
    fn apply(&mut self, x: i64) -> i64 {
        2 * x
    }
}

#[actor(local)]
impl Adder {}

#[actor]
impl Op for Adder {
    fn apply(&mut self, x: i64) -> i64 {
        x + self.0
    }
}

fn main() -> selvedge::Result<()> {
    let runtime = Runtime::new();
    let doubler = runtime.spawn_with("doubler", || Doubler).in_thread()?;
    let adder = runtime.spawn_with("adder", || Adder(5)).inline()?;
    let ops: Vec<OpHandle> = vec![doubler.as_op(), OpHandle::from(&adder), doubler.into()];
    let graph = runtime.compile(|x: Edge<i64>| ops.iter().fold(x, |x, op| op.apply(&x)))?;
    assert_eq!(graph.run(4)?, 26);
    Ok(())
}
