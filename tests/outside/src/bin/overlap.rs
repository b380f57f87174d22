//! An actor with `concurrency = 8`: 1 000 waits of 10 ms, and the end of waits whose handles are dropped.

use std::time::{Duration, Instant};

use selvedge::prelude::*;

struct Fetcher;

#[actor(concurrency = 8)]
impl Fetcher {
    pub fn new() -> Self {
        Fetcher
    }

    pub async fn fetch(&self, id: u64, ms: u64) -> u64 {
        tokio::time::sleep(Duration::from_millis(ms)).await;
        id
    }
}

fn main() -> Result<()> {
    let runtime = Runtime::new();
    for placement in [Placement::Thread, Placement::Process] {
        let fetcher = runtime.spawn::<Fetcher>("fetcher", ()).place(placement)?;
        let graph = runtime.compile(|(id, ms): (Edge<u64>, Edge<u64>)| fetcher.fetch(&id, &ms))?;

        let begun = Instant::now();
        let ids: Vec<u64> = graph.map((0..1000).map(|id| (id, 10))).collect::<Result<_, _>>()?;
        println!("{placement}: 1 000 waits of 10 ms took {:?}", begun.elapsed());
        assert!(ids.into_iter().eq(0..1000), "results keep their order");

        let hours: Vec<_> = (0..8).map(|id| graph.execute((id, 3_600_000))).collect();
        let begun = Instant::now();
        drop(hours);
        assert_eq!(graph.run((7, 0))?, 7); // It needs the place of a wait that was dropped.
        println!("{placement}: eight waits of an hour ended within {:?}", begun.elapsed());
    }
    Ok(())
}
