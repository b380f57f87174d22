//! A shared array of elements that are no numbers.

use selvedge::parallel::SharedArray;
use selvedge::prelude::*;

fn main() -> Result<()> {
    let runtime = Runtime::new();
    let array = SharedArray::<String>::build(&runtime, [3]).zeroed()?;
    drop(array);
    Ok(())
}
