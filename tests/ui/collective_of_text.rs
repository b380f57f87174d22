use selvedge::prelude::*;

struct Rank;

#[actor]
impl Rank {
    pub fn new() -> Self {
        Rank
    }

    pub fn part(&mut self, x: u32) -> String {
        x.to_string()
    }
}

fn main() -> Result<()> {
    let runtime = Runtime::new();
    let a = runtime.spawn::<Rank>("a", ()).in_thread()?;
    let b = runtime.spawn::<Rank>("b", ()).in_thread()?;
    let graph = runtime.compile(|x: Edge<u32>| {
        let [sum, _] = allreduce(ReduceOp::Sum, [a.part(&x), b.part(&x)]);
        sum
    })?;
    println!("{}", graph.run(1)?);
    Ok(())
}
