//! Lanes and workers end with their last user.

use std::time::Duration;

use crate::actors::{counter, warm_up};
use crate::alone::alone;
use crate::census::{self, Census};
use selvedge::prelude::*;
use selvedge::{CallError, EndError, SpawnError};

struct Unborn;

#[actor]
impl Unborn {
    pub fn new(ok: bool) -> Result<Self> {
        if ok { Ok(Unborn) } else { Err("not today".into()) }
    }

    pub fn echo(&mut self, x: i64) -> i64 {
        x
    }

    /// Reports that it runs, then awaits for ever.
    pub async fn await_for_ever(&mut self, _x: i64, #[constant] says: &str) -> i64 {
        std::fs::write(says, "here").expect("a file");
        std::future::pending().await
    }

    /// Calls [`Self::hang`], for use in a graph.
    pub fn hang_in_a_graph(&mut self, _x: i64, #[constant] says: &str) -> i64 {
        self.hang(says)
    }

    /// Reports that it runs, and never returns.
    pub fn hang(&mut self, says: &str) -> i64 {
        std::fs::write(says, "here").expect("a file");
        loop {
            std::thread::park();
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(20);

fn threads_of(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

#[test]
fn a_lane_and_a_worker_end_with_their_last_handle_and_actor_or_when_told() -> Result<()> {
    alone(|| {
        warm_up();
        let runtime = Runtime::new();
        let keeper = counter(&runtime, "keeper", Placement::Process);
        assert_eq!(keeper.call().echo(1).wait()?, 1);
        let before = census::settled(Census::take);

        unborn_leave_nothing(&runtime)?;
        gone_with_their_last_actor(&runtime, &before)?;
        told_to_end(&runtime)?;
        awaiting_when_told(&runtime)?;
        stuck_when_told(&runtime)?;
        stuck_in_a_graph_when_told(&runtime)?;

        assert_eq!(census::wait_until(&before, Census::take), before);
        assert_eq!(keeper.call().echo(2).wait()?, 2, "others are not disturbed");
        Ok(())
    })
}

fn unborn_leave_nothing(runtime: &Runtime) -> Result<()> {
    let worker = runtime.worker("w")?;
    let pid = worker.pid().expect("a process");
    let there = census::settled(|| threads_of(pid));
    let here = census::settled(Census::take);
    for _ in 0..20 {
        assert!(runtime.spawn::<Unborn>("a", (false,)).in_worker(&worker).is_err());
        assert!(
            runtime
                .spawn::<Unborn>("a", (false,))
                .in_lane(&worker.lane("l"))
                .is_err()
        );
        assert!(
            runtime
                .spawn::<Unborn>("a", (false,))
                .in_lane(&runtime.lane("l"))
                .is_err()
        );
        assert!(runtime.spawn::<Unborn>("a", (false,)).in_thread().is_err());
    }
    assert_eq!(census::wait_until(&there, || threads_of(pid)), there);
    assert_eq!(census::wait_until(&here, Census::take), here);
    Ok(())
}

fn gone_with_their_last_actor(runtime: &Runtime, before: &Census) -> Result<()> {
    for _ in 0..10 {
        let lane = runtime.lane("l");
        let [first, last] = [(); 2].map(|()| runtime.spawn::<Unborn>("a", (true,)).in_lane(&lane));
        let (first, last) = (first?, last?);
        drop(lane);
        first.actor().kill();
        assert_eq!(last.call().echo(1).wait()?, 1, "an actor keeps its lane");
        last.actor().kill();
    }
    assert_eq!(&census::wait_until(before, Census::take), before);

    let worker = runtime.worker("w")?;
    let pid = worker.pid().expect("a process");
    let a = runtime.spawn::<Unborn>("a", (true,)).in_worker(&worker)?;
    let lane = worker.lane("l");
    drop(worker);
    assert_eq!(a.call().echo(1).wait()?, 1, "an actor keeps its worker");
    a.actor().kill();
    assert!(!census::wait_until(&false, || census::is_alive(pid)));
    assert!(runtime.spawn::<Unborn>("b", (true,)).in_lane(&lane).is_err());
    drop(lane);

    let unused = runtime.worker("unused")?;
    let lane = unused.lane("l");
    let pid = unused.pid().expect("a process");
    drop(unused);
    assert!(runtime.spawn::<Unborn>("a", (false,)).in_lane(&lane).is_err());
    assert!(census::is_alive(pid), "a lane keeps its worker");
    drop(lane);
    assert_eq!(&census::wait_until(before, Census::take), before);
    Ok(())
}

fn told_to_end(runtime: &Runtime) -> Result<()> {
    let worker = runtime.worker("w")?;
    let (here, there) = (runtime.lane("here"), worker.lane("there"));
    for lane in [&here, &there] {
        let a = runtime.spawn::<Unborn>("a", (true,)).in_lane(lane)?;
        assert_eq!(a.call().echo(1).wait()?, 1);
        assert_eq!(lane.end(PATIENCE), Ok(()));
        let died = a.call().echo(1).wait();
        assert!(matches!(died, Err(CallError::ActorDied { .. })), "{died:?}");
        assert!(died.unwrap_err().to_string().contains("its lane was ended"));
        let refused = runtime.spawn::<Unborn>("a", (true,)).in_lane(lane);
        assert!(matches!(refused, Err(SpawnError::Ended { .. })), "{refused:?}");
        assert_eq!(lane.end(PATIENCE), Ok(()), "once more");
    }
    assert_eq!(runtime.lane("never used").end(PATIENCE), Ok(()));
    let lane = runtime.lane("here");
    let _a = runtime.spawn::<Unborn>("a", (true,)).in_lane(&lane)?;
    assert_eq!(lane.end(Duration::MAX), Ok(()), "a time that no clock can hold");
    let a = runtime.spawn::<Unborn>("a", (true,)).in_worker(&worker)?;
    assert_eq!(worker.end(Duration::MAX), Ok(()));
    assert_eq!(worker.pid(), None);
    let died = a.call().echo(1).wait();
    assert!(died.unwrap_err().to_string().contains("its worker was ended"));
    assert_eq!(worker.end(PATIENCE), Ok(()), "once more");
    Ok(())
}

/// Ends a lane whose actor awaits in a graph: the graph ends with its actor and keeps no lane, although its handle
/// lives.
fn awaiting_when_told(runtime: &Runtime) -> Result<()> {
    let worker = runtime.worker("w")?;
    for lane in [runtime.lane("here"), worker.lane("there")] {
        let pid = worker.pid();
        let a = runtime.spawn::<Unborn>("a", (true,)).in_lane(&lane)?;
        let says = std::env::temp_dir().join(format!("selvedge-awaits-{}", std::process::id()));
        let path = says.display().to_string();
        let graph = runtime.compile(|x: Edge<i64>| a.await_for_ever(&x, path.clone()))?;
        let awaits = graph.execute(1);
        assert!(census::wait_until(&true, || says.exists()));
        std::fs::remove_file(says)?;
        assert_eq!(lane.end(PATIENCE), Ok(()));
        let died = awaits.wait();
        assert!(matches!(died, Err(ExecError::ActorDied(_))), "{died:?}");
        assert!(graph.teardown().stuck.is_empty());
        assert_eq!(worker.pid(), pid, "the worker goes on");
    }
    assert_eq!(worker.end(PATIENCE), Ok(()));
    Ok(())
}

fn stuck_when_told(runtime: &Runtime) -> Result<()> {
    let worker = runtime.worker("w")?;
    let lane = worker.lane("stuck");
    let a = runtime.spawn::<Unborn>("a", (true,)).in_lane(&lane)?;
    let says = std::env::temp_dir().join(format!("selvedge-hangs-{}", std::process::id()));
    let hangs = a.call().hang(says.display().to_string());
    assert!(census::wait_until(&true, || says.exists()));
    std::fs::remove_file(says)?;
    let stuck = lane.end(Duration::from_millis(1));
    assert!(matches!(stuck, Err(EndError::Stuck { .. })), "{stuck:?}");
    let killed = worker.end(Duration::from_millis(1));
    assert!(matches!(killed, Err(EndError::Killed { .. })), "{killed:?}");
    let died = hangs.wait();
    assert!(matches!(died, Err(CallError::ActorDied { .. })), "{died:?}");
    assert_eq!(worker.pid(), None);
    Ok(())
}

fn stuck_in_a_graph_when_told(runtime: &Runtime) -> Result<()> {
    let worker = runtime.worker("w")?;
    let a = runtime.spawn::<Unborn>("a", (true,)).in_worker(&worker)?;
    let says = std::env::temp_dir().join(format!("selvedge-hangs-too-{}", std::process::id()));
    let path = says.display().to_string();
    let graph = runtime.compile(|x: Edge<i64>| a.hang_in_a_graph(&x, path.clone()))?;
    let execution = graph.execute(1);
    assert!(census::wait_until(&true, || says.exists()));
    std::fs::remove_file(says)?;
    let killed = worker.end(Duration::from_millis(1));
    assert!(matches!(killed, Err(EndError::Killed { .. })), "{killed:?}");
    assert!(matches!(execution.wait(), Err(ExecError::ActorDied(_))));
    // The programs there ended with the process: the tear-down does not wait, and no task is stuck.
    let report = graph.teardown();
    assert!(report.stuck.is_empty(), "{report:?}");
    Ok(())
}
