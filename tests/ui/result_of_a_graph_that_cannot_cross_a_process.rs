use selvedge::prelude::*;

struct Session(u32);

struct Server;

#[actor]
impl Server {
    pub fn new() -> Self {
        Server
    }

    pub fn open(&mut self, id: u32) -> Session {
        Session(id)
    }
}

fn main() -> Result<()> {
    let runtime = Runtime::new();
    let server = runtime.spawn::<Server>("server", ()).inline()?;
    let graph = runtime.compile(|id: Edge<u32>| server.open(&id))?;
    let session = graph.submit(7);
    Ok(())
}
