//! The smallest graph: two methods of one actor.
#![allow(unreachable_pub)] // an actor's operations are its public methods

use selvedge::prelude::*;

struct Tok {
    vocab: u32,
}

#[actor]
impl Tok {
    pub fn new(vocab: u32) -> Self {
        Tok { vocab }
    }

    pub fn encode(&mut self, text: &str) -> Vec<u32> {
        text.bytes().map(|byte| u32::from(byte) % self.vocab).collect()
    }

    pub fn count(&mut self, ids: &[u32]) -> usize {
        ids.len()
    }
}

fn main() -> Result<()> {
    let runtime = Runtime::new();
    let tok = runtime.spawn::<Tok>("tok", (97,)).in_thread()?;
    let graph = runtime.compile(|text: Edge<String>| tok.count(&tok.encode(&text)))?;
    println!("{} tokens", graph.execute("hello".into()).wait()?);
    Ok(())
}
