//! An async constructor, as a database client has, driven on the actor's own thread.
use std::time::Duration;

use selvedge::prelude::*;
use tokio::sync::mpsc;

struct Client {
    requests: mpsc::Sender<u32>,
    answers: mpsc::Receiver<u32>,
}

#[actor]
impl Client {
    /// Connects: a task of the actor's tokio runtime answers from now on.
    pub async fn new(delay_ms: u64) -> Result<Self> {
        tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        let ((requests, mut asked), (answer, answers)) = (mpsc::channel(4), mpsc::channel(4));
        tokio::spawn(async move {
            while let Some(x) = asked.recv().await {
                answer.send(x + 1).await.ok();
            }
        });
        Ok(Client { requests, answers })
    }

    pub async fn ask(&mut self, x: u32) -> Result<u32> {
        self.requests.send(x).await?;
        self.answers.recv().await.ok_or_else(|| "the connection is closed".into())
    }
}

fn main() -> selvedge::Result<()> {
    let runtime = Runtime::new().build_timeout(Duration::from_secs(20));
    for place in [Placement::Inline, Placement::Thread, Placement::Process] {
        let client = runtime.spawn::<Client>("client", (5,)).place(place)?;
        let graph = runtime.compile(|x: Edge<u32>| client.ask(&x))?;
        assert_eq!((graph.run(1)?, graph.run(2)?), (2, 3));
    }
    Ok(())
}
