use std::rc::Rc;

use selvedge::prelude::*;

struct Scale(u32);

#[actor]
impl Scale {
    pub fn new(scale: Rc<u32>) -> Self {
        Scale(*scale)
    }

    pub fn scale(&mut self, x: u32) -> u32 {
        x * self.0
    }
}

fn main() -> Result<()> {
    let runtime = Runtime::new();
    let scale = runtime.spawn::<Scale>("scale", (Rc::new(3),)).in_thread()?;
    let graph = runtime.compile(|x: Edge<u32>| scale.scale(&x))?;
    println!("{}", graph.run(1)?);
    Ok(())
}
