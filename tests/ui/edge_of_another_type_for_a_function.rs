use selvedge::prelude::*;

#[remote]
fn count(ids: &[u32]) -> usize {
    ids.len()
}

fn main() -> Result<()> {
    let runtime = Runtime::new();
    let _graph = runtime.compile(|text: Edge<String>| count::bind(&text))?;
    Ok(())
}
