//! Drives the futures of `async fn` methods on the thread that called them.
//!
//! A lane gets a tokio current-thread runtime at its first async method, never before: most lanes need none.
//! An inline actor may be called on a thread that is already inside the user's own tokio runtime, where tokio
//! forbids to start another one. There the future is polled by this thread, parked in between, while timers and
//! sockets are served by a runtime on a helper thread (`selvedge-async`).

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle, Thread};

use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

use crate::Failure;

/// Runs futures to their end on the current thread. Cloning shares the runtime behind it.
#[derive(Clone, Default)]
pub struct AsyncDriver {
    engines: Arc<Engines>,
}

/// A future was dropped where it awaited, because [`AsyncDriver::interrupt`] said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

impl From<Interrupted> for Failure {
    fn from(_: Interrupted) -> Self {
        Failure::Busy("its graph was torn down while it awaited".to_owned())
    }
}

/// Whether futures go on, and who is to be woken when they do not.
#[derive(Default)]
struct Interrupt {
    said: AtomicBool,
    waiting: Mutex<Option<Waker>>,
}

#[derive(Default)]
struct Engines {
    interrupt: Interrupt,
    own: OnceLock<Option<OwnRuntime>>,
    guest: OnceLock<Option<HelperThread>>,
}

impl AsyncDriver {
    /// A driver that has no runtime yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs `future` to its end. Works on any thread, also inside a tokio runtime. Where the system refuses a
    /// runtime (no descriptors left) the future is still polled, without timers and sockets.
    ///
    /// # Errors
    /// [`Interrupted`].
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output, Interrupted> {
        let mut future = pin!(future);
        let interrupt = &self.engines.interrupt;
        self.drive(poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Ok(output));
            }
            // The waker first: who interrupts says so and then looks for one.
            *interrupt.waiting.lock() = Some(context.waker().clone());
            if interrupt.said.load(Ordering::SeqCst) {
                return Poll::Ready(Err(Interrupted));
            }
            Poll::Pending
        }))
    }

    /// Ends what awaits in `block_on`, now and from now on: futures are dropped where they await.
    pub fn interrupt(&self) {
        let interrupt = &self.engines.interrupt;
        interrupt.said.store(true, Ordering::SeqCst);
        let waiting = interrupt.waiting.lock().take();
        if let Some(waker) = waiting {
            waker.wake();
        }
    }

    fn drive<F: Future>(&self, future: F) -> F::Output {
        if Handle::try_current().is_ok() {
            return match self.engines.guest.get_or_init(HelperThread::start) {
                Some(helper) => {
                    let _entered = helper.handle.enter();
                    park_on(future)
                }
                None => park_on(future),
            };
        }
        match self.engines.own.get_or_init(OwnRuntime::start) {
            Some(OwnRuntime(Some(runtime))) => runtime.block_on(future),
            _ => park_on(future),
        }
    }
}

impl std::fmt::Debug for AsyncDriver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AsyncDriver")
            .field("started", &self.engines.own.get().is_some())
            .finish()
    }
}

/// A tokio runtime that may be dropped anywhere: tokio's own drop panics inside another runtime.
struct OwnRuntime(Option<Runtime>);

impl OwnRuntime {
    fn start() -> Option<Self> {
        Builder::new_current_thread()
            .enable_all()
            .build()
            .ok()
            .map(|runtime| Self(Some(runtime)))
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A runtime on a thread of its own, for futures polled inside somebody else's runtime.
struct HelperThread {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl HelperThread {
    fn start() -> Option<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().ok()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let run = move || {
            // An error means the sender is gone, which is the other way to say stop.
            let _ = runtime.block_on(stopped);
        };
        let thread = thread::Builder::new()
            .name("selvedge-async".to_owned())
            .spawn(run)
            .ok()?;
        Some(Self {
            handle,
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for HelperThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread only ever waits for `stop`, so this ends at once; its result carries nothing.
            let _ = thread.join();
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn park_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_future_with_a_timer_ends_outside_and_inside_a_tokio_runtime() {
        let driver = AsyncDriver::new();
        let nap = || async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            7
        };
        assert_eq!(driver.block_on(nap()), Ok(7));
        let outer = Builder::new_current_thread().build().unwrap();
        assert_eq!(outer.block_on(async { driver.block_on(nap()) }), Ok(7));
        outer.block_on(async move { drop(driver) });
    }

    #[test]
    fn what_awaits_is_dropped_when_interrupted() {
        let driver = AsyncDriver::new();
        let (interrupted, stuck) = (driver.clone(), Arc::new(()));
        let held = Arc::clone(&stuck);
        let thread = thread::spawn(move || {
            interrupted.block_on(async move {
                let _held = held;
                std::future::pending::<u8>().await
            })
        });
        driver.interrupt();
        assert_eq!(thread.join().unwrap(), Err(Interrupted));
        assert_eq!(Arc::strong_count(&stuck), 1);
        assert_eq!(driver.block_on(async { 1 }), Ok(1), "what need not await ends");
    }
}
