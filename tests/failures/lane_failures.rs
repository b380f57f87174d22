//! A lane that fails by itself: all other work for the graph is notified, even if no thread polls the graph.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::task::{Wake, Waker};
use std::time::Duration;

use crate::actors::{Gate, PLACEMENTS, REMOTE};
use selvedge::CallError;
use selvedge::collectives::{
    AbortHandle, Backend, Capabilities, Collective, CommError, Communicator, Contribution, Joining, PlanId,
};
use selvedge::prelude::*;

/// A rank whose first operation ends its lane: the operation returns an error, or panics.
struct Brittle {
    rank: usize,
    ranks: usize,
    panics: bool,
}

impl Communicator for Brittle {
    fn rank(&self) -> usize {
        self.rank
    }
    fn world_size(&self) -> usize {
        self.ranks
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities::everything("brittle")
    }
    fn plan(&mut self, _: Collective) -> Result<PlanId, CommError> {
        Ok(PlanId(0))
    }
    fn launch(&mut self, _: PlanId, _: Contribution<'_>) -> Result<(), CommError> {
        Ok(())
    }
    fn poll(&mut self) -> Result<Option<Vec<Tensor>>, CommError> {
        assert!(!self.panics, "a brittle rank");
        Err(CommError::Corrupt {
            what: "a brittle rank",
        })
    }
    fn wait(&mut self, _: Option<Duration>) -> Result<Vec<Tensor>, CommError> {
        Err(CommError::Idle)
    }
    fn abort_handle(&self) -> AbortHandle {
        AbortHandle::new(|| {})
    }
    fn close(self: Box<Self>, _: Duration) -> Result<(), CommError> {
        Ok(())
    }
}

fn join(joining: &Joining<'_>, panics: bool) -> Result<Box<dyn Communicator>, CommError> {
    Ok(Box::new(Brittle {
        rank: joining.rank,
        ranks: joining.bells.len(),
        panics,
    }))
}

selvedge::communicator_backend!(Backend::new(
    "fails",
    || Capabilities::everything("fails"),
    |joining| join(joining, false)
));

selvedge::communicator_backend!(Backend::new(
    "panics",
    || Capabilities::everything("panics"),
    |joining| join(joining, true)
));

struct Waits {
    dropped: Arc<AtomicU32>,
}

struct Dropped(Arc<AtomicU32>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[actor]
impl Waits {
    pub fn new() -> Self {
        Waits {
            dropped: Arc::default(),
        }
    }

    /// Writes to the file `begun`, where a gate counts it, then awaits for ever.
    pub async fn for_ever(&mut self, x: i64, #[constant] begun: &str) -> i64 {
        let _dropped = Dropped(Arc::clone(&self.dropped));
        std::fs::write(begun, "so").expect("a file");
        std::future::pending::<()>().await;
        x
    }

    pub fn dropped(&mut self) -> u32 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub fn bring(&mut self, x: i64, #[constant] gate: &str) -> Vec<i64> {
        let gate = std::fs::File::open(gate).expect("a gate");
        gate.lock_shared().expect("a lock");
        vec![x]
    }
}

/// A waker that reports each wake-up through a channel.
struct Tells(Sender<()>);

impl Wake for Tells {
    fn wake(self: Arc<Self>) {
        let _ = self.0.send(());
    }
}

#[test]
fn dag_54_a_lane_that_fails_by_itself_has_async_methods_dropped_and_watchers_told() -> Result<()> {
    let patience = Duration::from_secs(60);
    for (how, said) in [
        ("fails", "a brittle rank"),
        ("panics", "panicked: a brittle rank"),
    ] {
        for (fails, awaits) in PLACEMENTS
            .iter()
            .flat_map(|one| REMOTE.map(|other| (*one, other)))
        {
            let what = format!("{how} in {fails}, awaits in {awaits}");
            let runtime = Runtime::new();
            let [a, b, c] = [("a", awaits), ("b", fails), ("c", fails)]
                .map(|(name, place)| runtime.spawn::<Waits>(name, ()).place(place).unwrap());
            let (begun, gate) = (Gate::closed(), Gate::closed());
            let options = Options::new().communicator(how).timeout(patience);
            let graph = runtime.compile_with(options, |x: Edge<i64>| {
                let ranks = [b.bring(&x, gate.path()), c.bring(&x, gate.path())];
                (
                    a.for_ever(&x, begun.path()),
                    allgather(ranks).into_iter().collect::<Vec<_>>(),
                )
            })?;
            let (tells, told) = channel();
            assert!(graph.watch(&Waker::from(Arc::new(Tells(tells)))).is_none());
            let mut stuck = graph.execute(1);
            begun.reached(1);
            gate.open();
            // From here on no thread polls the graph, except the one that runs the ranks that are inline.
            let looked = (fails == Placement::Inline).then(|| stuck.wait_timeout(patience));
            assert_eq!(told.recv_timeout(patience), Ok(()), "{what}");
            let dropped = a.call().dropped().wait_timeout(patience).expect(&what);
            assert_eq!(dropped, 1, "{what}");
            let ended = looked.unwrap_or_else(|| stuck.wait_timeout(patience));
            let error = ended.expect_err("its lanes have failed");
            let broken = matches!(error, ExecError::Broken { .. });
            assert!(broken && error.to_string().contains(said), "{what}: {error}");
        }
    }
    Ok(())
}

/// An actor whose methods overlap, and of which one never returns.
struct Endless;

#[actor(concurrency = 4)]
impl Endless {
    pub fn new() -> Self {
        Endless
    }
    pub async fn for_ever(&self) -> u32 {
        std::future::pending().await
    }
    pub fn here(&self) -> u32 {
        7
    }
}

#[test]
fn a_call_that_awaits_when_its_lane_ends_is_answered_in_every_place() -> Result<()> {
    let runtime = Runtime::new();
    let worker = runtime.worker("w")?;
    for lane in [runtime.lane("l"), worker.lane("l")] {
        let endless = runtime.spawn::<Endless>("endless", ()).in_lane(&lane)?;
        let mut calls = [(); 6].map(|()| endless.call().for_ever());
        assert!(matches!(
            calls[0].wait_timeout(Duration::from_millis(20)),
            Err(CallError::Timeout { .. })
        ));
        lane.end(Duration::from_secs(30))?;
        for mut call in calls {
            let error = call
                .wait_timeout(Duration::from_secs(60))
                .expect_err("its actor is dead");
            assert!(matches!(error, CallError::ActorDied { .. }), "{error}");
            assert!(error.to_string().contains("its lane was ended"), "{error}");
        }
        assert!(endless.call().here().wait().is_err());
    }
    Ok(())
}
