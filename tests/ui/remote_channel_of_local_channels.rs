//! A channel of threads stays in its process: it is no value of a remote channel.
use std::sync::mpsc::Receiver;

use selvedge::prelude::*;

fn main() -> Result<()> {
    let runtime = Runtime::new();
    let channel = runtime.channel::<Receiver<u64>>(1)?;
    channel.close()?;
    Ok(())
}
