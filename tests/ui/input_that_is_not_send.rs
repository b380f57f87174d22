use std::rc::Rc;

use selvedge::prelude::*;

fn main() -> Result<()> {
    let runtime = Runtime::new();
    let graph = runtime.compile(|x: Edge<Rc<u32>>| x)?;
    graph.run(Rc::new(1))?;
    Ok(())
}
