//! A `Sender` and its `Receiver` go along edges between two threads, as they are.
use std::sync::mpsc::{Receiver, Sender, channel};

use selvedge::prelude::*;

struct Plumber;

#[actor]
impl Plumber {
    pub fn new() -> Self {
        Plumber
    }
    pub fn pipe(&mut self, _id: u32) -> (Sender<String>, Receiver<String>) {
        channel()
    }
}

struct Writer;

#[actor(local)]
impl Writer {
    pub fn greet(&mut self, to: Sender<String>, id: u32) -> Result<()> {
        Ok(to.send(format!("hello {id}"))?)
    }
}

fn main() -> Result<()> {
    let runtime = Runtime::new();
    let plumber = runtime.spawn::<Plumber>("plumber", ()).in_thread()?;
    let writer = runtime.spawn_with("writer", || Writer).in_thread()?;
    let graph = runtime.compile(|id: Edge<u32>| {
        let (to, from) = plumber.pipe(&id).split();
        (writer.greet(&to, &id), from)
    })?;
    let ((), from) = graph.run(7)?;
    assert_eq!(from.iter().collect::<Vec<_>>(), ["hello 7"]);
    Ok(())
}
