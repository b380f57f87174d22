use std::rc::Rc;

use selvedge::prelude::*;

struct Maker;

#[actor]
impl Maker {
    pub fn new() -> Self {
        Maker
    }

    pub fn make(&mut self, x: u32) -> Rc<u32> {
        Rc::new(x)
    }

    pub fn take(&mut self, x: &Rc<u32>) -> u32 {
        **x
    }
}

fn main() -> Result<()> {
    let runtime = Runtime::new();
    let maker = runtime.spawn::<Maker>("maker", ()).in_thread()?;
    let graph = runtime.compile(|x: Edge<u32>| maker.take(&maker.make(&x)))?;
    println!("{}", graph.run(1)?);
    Ok(())
}
