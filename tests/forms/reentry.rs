//! A method that uses the graph or the actor that it runs for: it gets an answer at once and never hangs.

use std::collections::HashMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::actors::{Gate, PLACEMENTS, counter};
use selvedge::prelude::*;
use selvedge::{CallError, FailureKind};

type Hook = Arc<dyn Fn() -> String + Send + Sync>;

/// Actions of `Meddler::run`, by number. Each test uses numbers of its own.
static HOOKS: LazyLock<Mutex<HashMap<u32, Hook>>> = LazyLock::new(Mutex::default);

fn hook(number: u32, act: impl Fn() -> String + Send + Sync + 'static) {
    HOOKS.lock().unwrap().insert(number, Arc::new(act));
}

struct Meddler;

#[actor]
impl Meddler {
    pub fn new() -> Self {
        Meddler
    }

    pub fn run(&mut self, number: u32) -> String {
        let act = HOOKS.lock().unwrap().get(&number).cloned();
        act.map_or_else(String::new, |act| act())
    }
}

type Own = Arc<OnceLock<Mutex<Option<Graph<u32, String>>>>>;

/// A graph that its own inline method can reach.
fn own(runtime: &Runtime) -> Result<Own> {
    let meddler = runtime.spawn::<Meddler>("meddler", ()).inline()?;
    let graph = runtime.compile_with(Options::new().max_inflight(4).timeout(None), |n: Edge<u32>| {
        meddler.run(&n)
    })?;
    let own = Own::default();
    let _ = own.set(Mutex::new(Some(graph)));
    Ok(own)
}

/// Executes a graph whose inline method calls `act` with that same graph. Returns the answer of `act`.
fn inside(
    number: u32,
    act: impl Fn(&mut Option<Graph<u32, String>>) -> String + Send + Sync + 'static,
) -> Result<String> {
    let runtime = Runtime::new();
    let own = own(&runtime)?;
    let execution = {
        let graph = own.get().unwrap().lock().unwrap();
        graph.as_ref().unwrap().execute(number)
    };
    let inner = Arc::clone(&own);
    hook(number, move || act(&mut inner.get().unwrap().lock().unwrap()));
    // An inline execution starts when a thread waits for it, so the hook is set in time.
    let said = execution.wait();
    HOOKS.lock().unwrap().remove(&number);
    Ok(said?)
}

fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn an_inline_method_cannot_execute_its_own_graph_and_is_told() -> Result<()> {
    let said = inside(1, |graph| {
        let graph = graph.as_ref().unwrap();
        let blocking = graph.execute(0).wait();
        let refused = graph.try_execute(7).unwrap_err();
        assert!(matches!(refused.error, ExecError::Reentered { .. }));
        assert_eq!(refused.value, 7, "nothing is lost");
        assert!(matches!(
            poll_once(&mut graph.execute(0)),
            Poll::Ready(Err(ExecError::Reentered { .. }))
        ));
        assert_eq!(graph.counters().submitted, 1);
        format!("{}", blocking.unwrap_err())
    })?;
    assert!(
        said.contains("was used by a method that it is running inline"),
        "{said}"
    );
    Ok(())
}

#[test]
fn an_inline_method_can_end_its_own_graph() -> Result<()> {
    let said = inside(2, |graph| {
        drop(graph.take());
        "gone".to_owned()
    });
    let Err(error) = said else {
        return Ok(()); // the result arrived before the end was seen
    };
    let error = error.downcast_ref::<ExecError>().cloned();
    assert!(matches!(error, Some(ExecError::TornDown { .. })), "{error:?}");
    Ok(())
}

#[test]
fn an_inline_actor_that_calls_itself_is_told() -> Result<()> {
    let runtime = Runtime::new();
    let meddler = runtime.spawn::<Meddler>("meddler", ()).inline()?;
    let (again, said) = (meddler.clone(), Arc::new(Mutex::new(None)));
    let tell = Arc::clone(&said);
    hook(3, move || {
        *tell.lock().unwrap() = again.call().run(0).wait().err();
        "outer".to_owned()
    });
    assert_eq!(meddler.call().run(3).wait()?, "outer");
    let Some(CallError::Failed { failure, .. }) = said.lock().unwrap().take() else {
        panic!("it got through")
    };
    assert_eq!(failure.report().kind, FailureKind::Busy);
    assert!(
        failure.to_string().contains("called by its own method"),
        "{failure}"
    );
    HOOKS.lock().unwrap().remove(&3);
    Ok(())
}

#[test]
fn an_inline_method_may_use_another_graph() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let other = runtime.compile(|x: Edge<i64>| a.inc(&x))?;
        let meddler = runtime.spawn::<Meddler>("meddler", ()).inline()?;
        let graph = runtime.compile(|n: Edge<u32>| meddler.run(&n))?;
        let number = 10 + placement as u32;
        hook(number, move || other.execute(5).wait().unwrap().to_string());
        assert_eq!(graph.execute(number).wait()?, "5", "{placement}");
        HOOKS.lock().unwrap().remove(&number);
    }
    Ok(())
}

/// A task that polls its future from within `wake`, as some executors do.
struct AtOnce {
    future: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
}

impl AtOnce {
    fn poll(self: &Arc<Self>) {
        let waker = Waker::from(Arc::clone(self));
        let Some(mut future) = self.future.lock().unwrap().take() else {
            return;
        };
        if future
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
        {
            *self.future.lock().unwrap() = Some(future);
        }
    }
}

impl Wake for AtOnce {
    fn wake(self: Arc<Self>) {
        self.poll();
    }
}

#[test]
fn a_waker_that_polls_at_once_does_not_hang() -> Result<()> {
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Thread);
    let gate = Gate::closed();
    let graph = runtime.compile(|x: Edge<i64>| a.pass(&x, gate.path()))?;
    let (tell, told) = channel();
    let execution = graph.execute(20);
    let task = Arc::new(AtOnce {
        future: Mutex::new(Some(Box::pin(async move {
            let _ = tell.send(execution.await);
        }))),
    });
    task.poll();
    gate.open();
    assert_eq!(told.recv_timeout(Duration::from_secs(60))??, 20);
    Ok(())
}

#[test]
fn a_waker_that_panics_harms_nobody() -> Result<()> {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            std::panic::resume_unwind(Box::new("a waker's own affair"));
        }
    }
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Thread);
    let gate = Gate::closed();
    let graph = runtime.compile(|x: Edge<i64>| a.pass(&x, gate.path()))?;
    let mut execution = pin!(graph.execute(5));
    let waker = Waker::from(Arc::new(Panics));
    assert!(
        execution
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    gate.open();
    assert_eq!(execution.get_mut().wait_timeout(Duration::from_secs(60))?, 5);
    assert_eq!(graph.execute(1).wait()?, 1);
    Ok(())
}

#[test]
fn a_waker_that_uses_its_graph_as_it_is_dropped_finds_it_free() -> Result<()> {
    struct Submits(Arc<Graph<i64, i64>>, Sender<bool>);
    impl Wake for Submits {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for Submits {
        fn drop(&mut self) {
            let _ = self.1.send(self.0.try_execute(7).is_ok());
        }
    }
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Thread);
    let gate = Gate::closed();
    let graph = Arc::new(runtime.compile(|x: Edge<i64>| a.pass(&x, gate.path()))?);
    let (tell, told) = channel();
    let mut execution = graph.execute(5);
    let waker = Waker::from(Arc::new(Submits(Arc::clone(&graph), tell)));
    assert!(
        Pin::new(&mut execution)
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    drop(waker);
    // The driver still holds the waker, and forgets it with the handle.
    drop(execution);
    gate.open();
    assert_eq!(graph.execute(1).wait()?, 1);
    assert!(told.recv_timeout(Duration::from_secs(60))?, "the graph was held");
    Ok(())
}

/// Installs a hook that blocks its inline method until the returned sender is used. The receiver reports the entry.
fn tar_pit(number: u32) -> (Sender<()>, Receiver<()>) {
    let (enter, entered) = channel();
    let (go, gone) = channel();
    let gone = Mutex::new(gone);
    hook(number, move || {
        let _ = enter.send(());
        let _ = gone.lock().unwrap().recv_timeout(Duration::from_secs(120));
        "out".to_owned()
    });
    (go, entered)
}

#[test]
fn who_submits_beside_an_inline_method_that_does_not_return_is_answered_in_time() -> Result<()> {
    let runtime = Runtime::new();
    let meddler = runtime.spawn::<Meddler>("meddler", ()).inline()?;
    let options = Options::new().submit_timeout(Duration::from_millis(20));
    let graph = runtime.compile_with(options, |n: Edge<u32>| meddler.run(&n))?;
    let (go, entered) = tar_pit(20);
    let stuck = graph.execute(20);
    std::thread::scope(|scope| -> Result<()> {
        let stuck = scope.spawn(|| stuck.wait());
        entered.recv_timeout(Duration::from_secs(60))?;
        let Err(ExecError::Timeout(timeout)) = graph.execute(0).wait() else {
            panic!("it was accepted")
        };
        assert_eq!(timeout.suspects[0].actor, "meddler");
        go.send(())?;
        assert_eq!(stuck.join().unwrap()?, "out");
        Ok(())
    })?;
    assert_eq!(graph.execute(0).wait()?, "");
    HOOKS.lock().unwrap().remove(&20);
    Ok(())
}

#[test]
fn who_looks_without_waiting_beside_an_inline_method_that_does_not_return_sees_nothing() -> Result<()> {
    let runtime = Runtime::new();
    let meddler = runtime.spawn::<Meddler>("meddler", ()).inline()?;
    let options = Options::new()
        .timeout(None)
        .submit_timeout(Duration::from_secs(120));
    let graph = runtime.compile_with(options, |n: Edge<u32>| meddler.run(&n))?;
    let (go, entered) = tar_pit(21);
    let (stuck, mut next) = (graph.execute(21), graph.execute(0));
    std::thread::scope(|scope| -> Result<()> {
        let stuck = scope.spawn(|| stuck.wait());
        entered.recv_timeout(Duration::from_secs(60))?;
        let (tell, told) = channel();
        let graph = &graph;
        let looks = scope.spawn(move || {
            let seen = next.try_get();
            let refused = graph.try_execute(7).expect_err("another thread has the graph");
            let _ = tell.send((seen.map(|seen| seen.map_err(|error| error.to_string())), refused));
            next
        });
        // The method has not returned: it returns only after `go.send` below, or after two minutes.
        let (seen, refused) = told.recv_timeout(Duration::from_secs(60))?;
        assert_eq!(seen, None);
        assert_eq!(refused.value, 7, "nothing is lost");
        let ExecError::Timeout(timeout) = &refused.error else {
            panic!("{refused}")
        };
        assert_eq!(timeout.suspects[0].actor, "meddler");
        go.send(())?;
        assert_eq!(stuck.join().unwrap()?, "out");
        assert_eq!(looks.join().unwrap().wait()?, "");
        Ok(())
    })?;
    HOOKS.lock().unwrap().remove(&21);
    Ok(())
}

#[test]
fn an_actor_that_waits_for_itself_and_two_that_wait_for_each_other_are_told() -> Result<()> {
    let runtime = Runtime::new();
    let [one, two] = ["one", "two"].map(|name| runtime.spawn::<Meddler>(name, ()).in_thread());
    let (one, two) = (one?, two?);
    let asks = |meddler: &MeddlerHandle, number: u32, limit: Duration| {
        let meddler = meddler.clone();
        move || match meddler.call().run(number).wait_timeout(limit) {
            Ok(said) => said,
            Err(error) => error.to_string(),
        }
    };
    let short = Duration::from_millis(100);
    // 40 waits for itself; 41 waits for the other one, which waits for this one.
    hook(40, asks(&one, 0, short));
    hook(41, asks(&two, 42, short));
    hook(42, asks(&one, 0, Duration::from_secs(20)));
    for number in [40, 41] {
        let said = one.call().run(number).wait()?;
        assert!(said.contains("the thread of the actor waits itself"), "{said}");
        assert!(said.contains("if it waits for the caller"), "{said}");
    }
    // A method that only takes its time.
    hook(43, || {
        std::thread::sleep(Duration::from_millis(300));
        String::new()
    });
    let late = one
        .call()
        .run(43)
        .wait_timeout(Duration::from_millis(1))
        .unwrap_err();
    assert!(!late.to_string().contains("waits itself"), "{late}");
    Ok(())
}
