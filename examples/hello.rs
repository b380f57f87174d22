//! The smallest graph: one actor, two of its methods. `cargo run -p selvedge-examples --example hello`
#![allow(unreachable_pub)] // an actor's operations are its public methods
use selvedge::prelude::*;

struct Tok(u32);
#[actor]
#[rustfmt::skip]
impl Tok {
    pub fn new(vocab: u32) -> Self { Tok(vocab) }
    pub fn encode(&mut self, text: &str) -> Vec<u32> { text.bytes().map(|b| u32::from(b) % self.0).collect() }
    pub fn count(&mut self, ids: &[u32]) -> usize { ids.len() }
}

fn main() -> Result<()> {
    let runtime = Runtime::new();
    let tok = runtime.spawn::<Tok>("tok", (97,)).in_thread()?;
    let graph = runtime.compile(|text: Edge<String>| tok.count(&tok.encode(&text)))?;
    println!("{} tokens", graph.run("hello".into())?);
    Ok(())
}
