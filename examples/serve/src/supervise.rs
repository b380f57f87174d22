//! Who has another graph built when one breaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use parking_lot::Mutex;
use selvedge::{ActorRef, BoxError, Graph};
use selvedge_batching::Batcher;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::sleep;

use crate::metrics::Metrics;

/// The pause after a build that failed; it doubles with each, up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause between builds.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// A graph and the actors that only it uses.
pub struct Built<In, Out> {
    /// Goes to the batcher.
    pub graph: Graph<In, Out>,
    /// End with it.
    pub actors: Actors,
}

/// Actors that are killed when this is dropped, so that no worker process outlives its graph.
#[derive(Debug, Default)]
pub struct Actors(pub Vec<ActorRef>);

impl Actors {
    /// The worker processes that they live in.
    pub fn pids(&self) -> Vec<u32> {
        let mut pids: Vec<u32> = self.0.iter().filter_map(ActorRef::pid).collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }
}

impl Drop for Actors {
    fn drop(&mut self) {
        self.0.iter().for_each(ActorRef::kill);
    }
}

/// How a graph is built; called again for each that broke.
pub trait Build<In, Out>: Send + Sync + 'static {
    /// Spawns the actors and compiles the graph. It may take its time: it runs on a thread where it may block.
    ///
    /// # Errors
    /// Whatever stands in the way.
    fn build(&self) -> Result<Built<In, Out>, BoxError>;
}

impl<In, Out, F> Build<In, Out> for F
where
    F: Fn() -> Result<Built<In, Out>, BoxError> + Send + Sync + 'static,
{
    fn build(&self) -> Result<Built<In, Out>, BoxError> {
        self()
    }
}

/// The actors that serve at the moment.
#[derive(Debug, Default)]
pub struct Crew {
    actors: Mutex<Actors>,
    number: AtomicU64,
    stuck: Notify,
}

impl Crew {
    /// These.
    pub fn new(actors: Actors) -> Arc<Crew> {
        Arc::new(Crew {
            actors: Mutex::new(actors),
            ..Crew::default()
        })
    }

    /// The worker processes that they live in.
    pub fn pids(&self) -> Vec<u32> {
        self.actors.lock().pids()
    }

    /// How many crews there were before this one.
    pub fn number(&self) -> u64 {
        // Relaxed, here and below: a crew is numbered before its graph gets its first member.
        self.number.load(Ordering::Relaxed)
    }

    /// Says that a step of the crew of this number did not end in time. The supervisor ends them, and so the graph: an actor that
    /// stands still would hold it up for ever. Late news of an earlier crew costs this one nothing.
    pub fn suspect(&self, number: u64) {
        if number == self.number() {
            self.stuck.notify_one();
        }
    }

    fn begin(&self, actors: Actors) {
        *self.actors.lock() = actors;
        self.number.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends them.
    pub fn dismiss(&self) {
        drop(std::mem::take(&mut *self.actors.lock()));
    }
}

/// Builds another graph whenever the batcher's breaks, until the batcher is closed.
pub fn supervise<I, O, In, Out>(
    batcher: &Arc<Batcher<I, O, In, Out>>,
    crew: Arc<Crew>,
    build: Arc<dyn Build<In, Out>>,
    metrics: Arc<Metrics>,
) -> JoinHandle<()>
where
    I: Send + 'static,
    O: Send + 'static,
    In: Send + 'static,
    Out: Send + 'static,
{
    // Weak, so that the batcher ends when its owner lets go of it.
    let batcher = Arc::downgrade(batcher);
    tokio::spawn(async move {
        loop {
            let Some(broken) = batcher.upgrade().map(|it| it.breakage()) else {
                return;
            };
            let broken = tokio::select! {
                broken = broken => broken,
                () = crew.stuck.notified() => {
                    dismiss(&crew).await;
                    continue;
                }
            };
            let Ok(cause) = broken else { return };
            eprintln!("error: {cause}");
            let since = Instant::now();
            // What is left of the old one goes first: two of them may not fit into memory.
            dismiss(&crew).await;
            // Whoever was suspected is gone.
            let _ = crew.stuck.notified().now_or_never();
            let built = again(&build, &metrics).await;
            let Some(batcher) = batcher.upgrade() else { return };
            crew.begin(built.actors);
            // It tears the old graph down.
            let _ = spawn_blocking(move || batcher.replace(built.graph)).await;
            metrics.rebuilds.add(1);
            metrics.rebuild_time.record(since.elapsed());
            eprintln!("rebuilt after {:.0?}", since.elapsed());
        }
    })
}

/// To kill actors takes until their deaths are known.
async fn dismiss(crew: &Arc<Crew>) {
    let crew = Arc::clone(crew);
    let _ = spawn_blocking(move || crew.dismiss()).await;
}

/// Builds until it succeeds.
async fn again<In, Out>(build: &Arc<dyn Build<In, Out>>, metrics: &Metrics) -> Built<In, Out>
where
    In: Send + 'static,
    Out: Send + 'static,
{
    let mut pause = PAUSE;
    loop {
        let build = Arc::clone(build);
        match spawn_blocking(move || build.build()).await {
            Ok(Ok(built)) => return built,
            Ok(Err(error)) => eprintln!("error: the model cannot be rebuilt: {error}"),
            Err(error) => eprintln!("error: the model cannot be rebuilt: {error}"),
        }
        metrics.failed_builds.add(1);
        sleep(pause).await;
        pause = (2 * pause).min(PAUSE_MAX);
    }
}
