use selvedge::prelude::*;

struct A;

#[actor]
impl A {
    pub fn new() -> Self {
        A
    }

    pub fn f(&mut self, x: u32) -> u32 {
        x
    }
}

fn main() -> Result<()> {
    let runtime = Runtime::new();
    let a = runtime.spawn::<A>("a", ()).inline()?;
    runtime.compile(|x: Edge<u32>| a.f(&x).with_transport("nccl"))?;
    Ok(())
}
