//! The supervisor, which has another graph built when one breaks.

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

/// The pause after a failed build; it doubles with each failure, up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause between builds.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// A graph and the actors that only it uses.
pub struct Built<In, Out> {
    /// The graph, which goes to the batcher.
    pub graph: Graph<In, Out>,
    /// The actors, which end with the graph.
    pub actors: Actors,
}

/// Actors that are killed when this is dropped, so that no worker process outlives its graph.
#[derive(Debug, Default)]
pub struct Actors(pub Vec<ActorRef>);

impl Actors {
    /// Returns the worker processes of the actors.
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

/// A function that builds a graph; called again for each graph that breaks.
pub trait Build<In, Out>: Send + Sync + 'static {
    /// Spawns the actors and compiles the graph. It runs on a thread where it may block, so it may be slow.
    ///
    /// # Errors
    /// The cause that prevents the build.
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

/// The actors that serve at present.
#[derive(Debug, Default)]
pub struct Crew {
    actors: Mutex<Actors>,
    number: AtomicU64,
    stuck: Notify,
}

impl Crew {
    /// Creates a crew of these actors.
    pub fn new(actors: Actors) -> Arc<Crew> {
        Arc::new(Crew {
            actors: Mutex::new(actors),
            ..Crew::default()
        })
    }

    /// Returns the worker processes of the actors.
    pub fn pids(&self) -> Vec<u32> {
        self.actors.lock().pids()
    }

    /// Returns the number of crews before this one.
    pub fn number(&self) -> u64 {
        // Relaxed, here and below: a crew is numbered before its graph gets its first member.
        self.number.load(Ordering::Relaxed)
    }

    /// Reports that a step of the crew with this number did not end in time. The supervisor then ends the crew, and so
    /// the graph: an actor that stands still would block it for ever. A late report about an earlier crew is ignored.
    pub fn suspect(&self, number: u64) {
        if number == self.number() {
            self.stuck.notify_one();
        }
    }

    fn begin(&self, actors: Actors) {
        *self.actors.lock() = actors;
        self.number.fetch_add(1, Ordering::Relaxed);
    }

    /// Kills the actors.
    pub fn dismiss(&self) {
        drop(std::mem::take(&mut *self.actors.lock()));
    }
}

/// Builds another graph whenever the batcher's graph breaks, until the batcher is closed.
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
    // Weak, so that the batcher ends when its owner drops it.
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
            // The rest of the old graph is removed first: two graphs may not fit into memory.
            dismiss(&crew).await;
            // The suspected crew is gone, so a pending report is dropped.
            let _ = crew.stuck.notified().now_or_never();
            let built = again(&build, &metrics).await;
            let Some(batcher) = batcher.upgrade() else { return };
            crew.begin(built.actors);
            // `replace` tears the old graph down, so it runs on a blocking thread.
            let _ = spawn_blocking(move || batcher.replace(built.graph)).await;
            metrics.rebuilds.add(1);
            metrics.rebuild_time.record(since.elapsed());
            eprintln!("rebuilt after {:.0?}", since.elapsed());
        }
    })
}

/// Kills the actors on a blocking thread, because killing waits until the deaths are known.
async fn dismiss(crew: &Arc<Crew>) {
    let crew = Arc::clone(crew);
    let _ = spawn_blocking(move || crew.dismiss()).await;
}

/// Builds until a build succeeds.
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
