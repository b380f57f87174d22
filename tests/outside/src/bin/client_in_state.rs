//! Two actors hold one client: `spawn_with` builds each of them from a closure, and nothing of it is encoded.
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use selvedge::prelude::*;

/// As a pool of connections: it cannot be cloned, and serde does not know it.
#[derive(Default)]
struct Client {
    requests: AtomicU32,
}

struct Fetcher {
    client: Arc<Client>,
}

#[actor(local)]
impl Fetcher {
    pub fn fetch(&mut self, page: u32) -> String {
        self.client.requests.fetch_add(1, Ordering::Relaxed);
        format!("page {page}")
    }
}

fn main() -> Result<()> {
    let runtime = Runtime::new();
    let client = Arc::new(Client::default());
    let fetcher = |name| {
        let client = Arc::clone(&client);
        runtime.spawn_with(name, move || Fetcher { client }).in_thread()
    };
    let (odd, even) = (fetcher("odd")?, fetcher("even")?);
    let graph = runtime.compile(|(x, y): (Edge<u32>, Edge<u32>)| (odd.fetch(&x), even.fetch(&y)))?;
    assert_eq!(graph.run((1, 2))?, ("page 1".into(), "page 2".into()));
    assert_eq!(client.requests.load(Ordering::Relaxed), 2);
    drop((graph, odd, even, runtime));
    assert_eq!(Arc::strong_count(&client), 1, "both actors have dropped theirs");
    Ok(())
}
