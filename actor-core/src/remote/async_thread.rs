//! A thread on which futures overlap: one for the async functions of a process, another for deadlines and wakers. Begun on
//! demand, ended with the runtime.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Waker;

use selvedge_channels::dispose;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{LocalSet, spawn_local};

use crate::cell::async_driver::AsyncDriver;
use crate::current::{NoBlocking, Place};
use crate::failure::Waking;
use crate::remote::executor::WorkRefusal;
use crate::remote::on_demand::OnDemand;
use crate::remote::threads::Threads;

/// Creates a future on the thread that polls it.
type Start = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// A thread on which futures overlap.
pub(crate) struct AsyncThread {
    name: &'static str,
    threads: Threads,
    queue: OnDemand<AsyncQueue>,
}

/// The way to a thread that runs.
#[derive(Clone)]
pub(crate) struct AsyncQueue(UnboundedSender<Start>);

impl AsyncQueue {
    /// Runs a future on the thread. `start` creates the future there. The end of the thread drops both.
    pub(crate) fn spawn<F: Future<Output = ()> + 'static>(&self, start: impl FnOnce() -> F + Send + 'static) {
        // A thread that has ended meanwhile drops `start`.
        let _ = self.0.send(Box::new(move || Box::pin(start())));
    }
}

impl AsyncThread {
    pub(crate) fn new(name: &'static str, threads: &Threads) -> Self {
        AsyncThread {
            name,
            threads: threads.clone(),
            queue: OnDemand::new(),
        }
    }

    /// The way to the thread, which starts if it does not run yet.
    ///
    /// # Errors
    /// The thread has been stopped, or the system refuses it.
    pub(crate) fn get(&self) -> Result<AsyncQueue, WorkRefusal> {
        self.queue.get(|| {
            let (sender, receiver) = unbounded_channel();
            self.threads.start(self.name, move || live(receiver))?;
            Ok(AsyncQueue(sender))
        })
    }

    /// Wakes a waker, which is user code, on the thread; if there is no such thread any more, on this one.
    pub(crate) fn wake(&self, waker: Waker) {
        let waking = Waking::new(waker);
        if let Ok(queue) = self.get() {
            queue.spawn(move || {
                drop(waking);
                std::future::ready(())
            });
        }
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.queue.stop();
    }
}

fn live(mut receiver: UnboundedReceiver<Start>) {
    // The drop of the futures that are left is user code.
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let futures = LocalSet::new();
        let begin = async {
            while let Some(start) = receiver.recv().await {
                // A panic here is a bug of ours; it must not take the other futures with it.
                match catch_unwind(AssertUnwindSafe(start)) {
                    Ok(future) => drop(spawn_local(future)),
                    Err(payload) => dispose(payload),
                }
            }
        };
        // The driver has no reason to interrupt its future.
        let _ = AsyncDriver::new().block_on(futures.run_until(begin));
    }));
    dispose(ended);
}

/// The place of an async function, which must not block.
pub(crate) struct AsyncPlace;

impl Place for AsyncPlace {
    fn block(&self) -> Result<(), NoBlocking> {
        Err(NoBlocking::Async)
    }

    fn resume(&self) {}
}
