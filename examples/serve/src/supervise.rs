//! The supervisor, which has another graph built when one breaks or stands still.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use selvedge::{ActorRef, BoxError, ExecError, Graph};
use selvedge_batching::{Batcher, Ticket};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{sleep, timeout};

use crate::metrics::Metrics;

/// The pause after a failed build; it doubles with each failure, up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause between builds.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// The time in which a graph ends whose actors were killed.
const END_MAX: Duration = Duration::from_secs(5);

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
}

impl Crew {
    /// Creates a crew of these actors.
    pub fn new(actors: Actors) -> Arc<Crew> {
        Arc::new(Crew {
            actors: Mutex::new(actors),
        })
    }

    /// Returns the worker processes of the actors.
    pub fn pids(&self) -> Vec<u32> {
        self.actors.lock().pids()
    }

    fn begin(&self, actors: Actors) {
        *self.actors.lock() = actors;
    }

    /// Kills the actors.
    pub fn dismiss(&self) {
        drop(std::mem::take(&mut *self.actors.lock()));
    }
}

/// Builds another graph whenever the batcher's graph breaks, or an execution does not end in time, until the batcher is
/// closed.
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
            let Some(watched) = batcher.upgrade() else { return };
            let (broken, overdue) = (watched.breakage(), watched.overdue());
            drop(watched);
            let Some((cause, since)) = lost(broken, overdue, &crew).await else {
                return;
            };
            eprintln!("error: {cause}");
            // The rest of the old graph is removed first: two graphs may not fit into memory.
            dismiss(&crew).await;
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

/// Waits until the graph is lost, and returns the cause and the moment of its report; `None` if the batcher was closed.
///
/// An actor that stands still would block its graph for ever. So its crew is killed, and the graph ends.
async fn lost(
    mut broken: Ticket<ExecError>,
    overdue: Ticket<ExecError>,
    crew: &Arc<Crew>,
) -> Option<(ExecError, Instant)> {
    tokio::select! {
        cause = &mut broken => Some((cause.ok()?, Instant::now())),
        late = overdue => {
            let (late, since) = (late.ok()?, Instant::now());
            dismiss(crew).await;
            match timeout(END_MAX, broken).await {
                Ok(Err(_)) => None,
                Ok(Ok(_)) | Err(_) => Some((late, since)),
            }
        }
    }
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
