use selvedge::prelude::*;

struct A<'a>(&'a str);

#[actor]
impl<'a> A<'a> {
    pub fn new() -> Self {
        A("a")
    }

    pub fn f(&mut self, x: u32) -> u32 {
        x
    }
}

fn main() {
    let runtime = Runtime::new();
    let a: AHandle = runtime.spawn::<A>("a", ()).in_thread().unwrap();
    let graph = runtime.compile(|x: Edge<u32>| a.f(&x)).unwrap();
    println!("{}", graph.run(1).unwrap());
}
