//! The interruption of what runs in a worker.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use selvedge::hosts::{ClusterManager, ManageEvent, ProcessId, WorkerConfig};
use selvedge::prelude::*;
use selvedge::{RemoteError, cancellation};

use crate::census::wait_until;
use crate::{beside_others, local, pid};

/// Awaits what never comes.
#[remote]
async fn never() -> u32 {
    std::future::pending().await
}

/// Works until it is told that nobody wants more.
#[remote]
fn works(started: RemoteChannel<u32>) -> Result<u64> {
    // An interruption may come before the answer to this put.
    let _ = started.put(1);
    let (token, mut rounds) = (cancellation(), 1);
    while !token.is_cancelled() {
        rounds += 1;
        std::thread::yield_now();
    }
    Ok(rounds)
}

/// Waits for a value that nobody puts.
#[remote]
fn waits(empty: RemoteChannel<u32>, started: RemoteChannel<u32>) -> Result<u32> {
    started.put(2)?;
    Ok(empty.take()?)
}

/// Records events.
struct Recording(Arc<Mutex<Vec<ManageEvent>>>);

impl ClusterManager for Recording {
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<()> {
        local(1).launch(out)
    }

    fn manage(&self, _: ProcessId, _: &mut WorkerConfig, event: ManageEvent) {
        self.0.lock().unwrap().push(event);
    }
}

#[test]
fn jclust_12_an_interrupted_worker_ends_what_runs_there_and_goes_on() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let events = Arc::default();
    let far = runtime.add(Recording(Arc::clone(&events))).unwrap().remove(0);
    let child = runtime.worker("child").unwrap();
    let other = runtime.worker("other").unwrap();
    for worker in [&far, &child] {
        let [started, empty] = [2, 1].map(|capacity| runtime.channel::<u32>(capacity).unwrap());
        let asynchronous = runtime.call(never::remote().on(worker));
        let working = runtime.call(works::remote(&started).on(worker));
        let waiting = runtime.call(waits::remote(&empty, &started).on(worker));
        let kept = runtime.keep(never::remote().on(worker));
        let mut elsewhere = runtime.call(never::remote().on(&other));
        assert_eq!(started.take().unwrap() + started.take().unwrap(), 3);
        runtime.call(pid::remote().on(worker)).wait().unwrap();
        worker.interrupt();
        let error = asynchronous.wait().unwrap_err();
        assert!(
            error.to_string().contains("its worker was interrupted"),
            "{error}"
        );
        assert!(working.wait().unwrap() > 0);
        let error = waiting.wait().unwrap_err();
        assert!(error.to_string().contains("cancelled"), "{error}");
        let error = kept.fetch().unwrap_err();
        assert!(
            error.to_string().contains("its worker was interrupted"),
            "{error}"
        );
        // What comes later is not concerned, nor is another worker.
        let found = runtime.call(pid::remote().on(worker)).wait().unwrap();
        assert_eq!(Some(found), worker.pid());
        let error = elsewhere.wait_timeout(Duration::ZERO).unwrap_err();
        assert!(matches!(error.remote(), Some(RemoteError::Timeout(_))), "{error}");
    }
    far.end(Duration::from_secs(60)).unwrap();
    // Nothing runs there any more.
    far.interrupt();
    let whole = [
        ManageEvent::Register,
        ManageEvent::Interrupt,
        ManageEvent::Deregister,
        ManageEvent::Finalize,
    ];
    let told = || events.lock().unwrap().clone();
    assert_eq!(wait_until(&whole.to_vec(), told), whole);
}
