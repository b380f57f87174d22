use selvedge::prelude::*;

struct Raw;

#[actor]
impl Raw {
    pub fn new() -> Self {
        Raw
    }

    pub unsafe fn read(&mut self, at: usize) -> u32 { at as u32 }
}

fn main() {
    let runtime = Runtime::new();
    let raw = runtime.spawn::<Raw>("raw", ()).in_thread().unwrap();
    let graph = runtime.compile(|x: Edge<usize>| raw.read(&x)).unwrap();
    println!("{}", graph.run(1).unwrap());
}
