//! Calls as futures: borrowed, several at once, and beside other futures.

use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Wake};
use std::time::Duration;

use selvedge::prelude::*;
use selvedge::{Call, CallError, RemoteError};

use super::gate::{Gate, wait_at};

#[remote]
fn passed(gate: &str, x: u32) -> u32 {
    wait_at(gate);
    x
}

#[remote]
fn halved(x: u32) -> Result<u32> {
    match x % 2 {
        0 => Ok(x / 2),
        _ => Err(format!("{x} is odd").into()),
    }
}

struct Adder(u32);

#[actor]
impl Adder {
    pub fn new(x: u32) -> Self {
        Adder(x)
    }

    pub fn add(&mut self, x: u32) -> u32 {
        self.0 += x;
        self.0
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}

#[test]
fn a_borrowed_call_goes_on_when_another_branch_is_first() {
    let runtime = Runtime::new();
    let _worker = runtime.worker("w").unwrap();
    let gate = Gate::closed("futures");
    let mut call = runtime.call(passed::remote(&gate.path, 7));
    block_on(async {
        tokio::select! {
            biased;
            value = &mut call => panic!("{value:?}"),
            () = std::future::ready(()) => {}
        }
        drop(gate);
        assert_eq!((&mut call).await.unwrap(), 7);
        let again = (&mut call).await.unwrap_err();
        assert!(matches!(again.remote(), Some(RemoteError::Taken)), "{again}");
    });
}

#[test]
fn an_answer_that_has_arrived_is_taken_without_a_wait() {
    let runtime = Runtime::new();
    let _worker = runtime.worker("w").unwrap();
    let gate = Gate::closed("taken");
    let mut call = runtime.call(passed::remote(&gate.path, 7));
    assert!(call.try_get().is_none());
    drop(gate);
    let first = Call::wait_any(std::slice::from_mut(&mut call), Duration::from_secs(60));
    assert_eq!(first.unwrap(), Some(0));
    assert_eq!(call.try_get().unwrap().unwrap(), 7);
    let again = call.try_get().unwrap().unwrap_err();
    assert!(matches!(again.remote(), Some(RemoteError::Taken)), "{again}");
}

#[test]
fn many_calls_are_awaited_together_without_a_box() {
    fn unboxed<T>(call: Call<T>) -> impl Future<Output = Result<T, CallError>> + Send + Unpin
    where
        T: Wire,
    {
        call
    }
    let runtime = Runtime::new();
    let _worker = runtime.worker("w").unwrap();
    let calls: Vec<_> = (0..6).map(|x| runtime.call(halved::remote(x))).collect();
    let values = block_on(futures_util::future::join_all(calls));
    let values: Vec<_> = values.into_iter().map(std::result::Result::ok).collect();
    assert_eq!(values, [Some(0), None, Some(1), None, Some(2), None]);

    let adder = runtime.spawn::<Adder>("adder", (1,)).in_thread().unwrap();
    let calls = (1..4).map(|x| unboxed(adder.call().add(x)));
    let sums = block_on(futures_util::future::try_join_all(calls));
    assert_eq!(sums.unwrap(), [2, 4, 7]);
}

/// A waker that makes a call itself.
struct CallingWaker {
    runtime: Runtime,
    called: mpsc::Sender<()>,
}

impl Wake for CallingWaker {
    fn wake(self: Arc<Self>) {
        drop(self.runtime.call(halved::remote(2)));
        let _ = self.called.send(());
    }
}

#[test]
fn the_waker_of_a_call_that_is_dropped_may_make_another_call() {
    let runtime = Runtime::new();
    let _worker = runtime.worker("w").unwrap();
    let gate = Gate::closed("dropped");
    let mut call = runtime.call(passed::remote(&gate.path, 7));
    let (called, calls) = mpsc::channel();
    let waker = Arc::new(CallingWaker { runtime, called }).into();
    assert!(
        Pin::new(&mut call)
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    std::thread::spawn(move || drop(call));
    calls.recv_timeout(Duration::from_secs(60)).unwrap();
    drop(gate);
}
