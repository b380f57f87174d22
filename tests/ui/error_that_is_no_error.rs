use selvedge::prelude::*;

struct A;

struct Odd;

#[actor]
impl A {
    pub fn new() -> Self {
        A
    }

    pub fn f(&mut self, x: u32) -> Result<u32, Odd> {
        if x > 0 { Ok(x) } else { Err(Odd) }
    }
}

fn main() {
    let runtime = Runtime::new();
    let a = runtime.spawn::<A>("a", ()).in_thread().unwrap();
    let graph = runtime.compile(|x: Edge<u32>| a.f(&x)).unwrap();
    println!("{}", graph.run(1).unwrap());
}
