use selvedge::prelude::*;

struct Tok;

#[actor]
impl Tok {
    pub fn new(_vocab: u32) -> Self {
        Tok
    }

    pub fn encode(&mut self, text: &str) -> Vec<u32> {
        text.bytes().map(u32::from).collect()
    }

    pub fn count(&mut self, ids: &[u32]) -> usize {
        ids.len()
    }
}

fn main() -> Result<()> {
    let runtime = Runtime::new();
    let tok = runtime.spawn::<Tok>("tok", (97,)).inline()?;
    let graph = runtime.compile(|text: Edge<String>| tok.encode(&text))?;
    let execution = graph.execute("a".into());
    let _ = runtime.compile(|_: Edge<String>| tok.count(&constant(execution)))?;
    Ok(())
}
