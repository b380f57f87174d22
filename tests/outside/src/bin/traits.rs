//! A trait of actors: a `Vec` of handles to different actors.
use selvedge::prelude::*;

#[actor]
trait Op {
    fn apply(&mut self, x: i64) -> i64;
}

struct Doubler;

#[actor(local)]
impl Doubler {}

#[actor]
impl Op for Doubler {
    fn apply(&mut self, x: i64) -> i64 {
        2 * x
    }
}

struct Adder(i64);

#[actor]
impl Adder {
    pub fn new(by: i64) -> Self { Adder(by) }
}

#[actor]
impl Op for Adder {
    fn apply(&mut self, x: i64) -> i64 { x + self.0 }
}

fn main() -> selvedge::Result<()> {
    let runtime = Runtime::new();
    let doubler = runtime.spawn_with("doubler", || Doubler).in_thread()?;
    let adder = runtime.spawn::<Adder>("adder", (5,)).in_process()?;
    let ops: Vec<OpHandle> = vec![doubler.as_op(), OpHandle::from(&adder), doubler.into()];
    let graph = runtime.compile(|x: Edge<i64>| ops.iter().fold(x, |x, op| op.apply(&x)))?;
    Ok(assert_eq!(graph.run(4)?, 26))
}
