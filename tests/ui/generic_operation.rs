use selvedge::prelude::*;

struct A;

#[actor]
impl A {
    pub fn new() -> Self {
        A
    }

    pub fn f<T>(&mut self, x: T) -> u32 { drop(x); 1 }
}

fn main() {
    let runtime = Runtime::new();
    let a = runtime.spawn::<A>("a", ()).in_thread().unwrap();
    let graph = runtime.compile(|x: Edge<u32>| a.f(&x)).unwrap();
    println!("{}", graph.run(1).unwrap());
}
