//! Drives the futures of `async fn` methods on the thread that called them.
//!
//! A lane gets a tokio current-thread runtime at its first async method, never before: most lanes need none.
//! An inline actor may be called on a thread that is already inside the user's own tokio runtime, where tokio
//! forbids to start another one. There the future is polled by this thread, parked in between, while timers and
//! sockets are served by a runtime on a helper thread (`selvedge-async`).

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::{Failure, deadline_after};

/// Runs futures to their end on the current thread. Cloning shares the runtime behind it.
#[derive(Clone, Default)]
pub struct AsyncDriver {
    engines: Arc<Engines>,
    /// How long a future may take. `None` is without end.
    limit: Option<Duration>,
}

/// Why a future was dropped where it awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupted {
    /// Nobody wants its result any more.
    Unwanted,
    /// The future took longer than it may.
    TimedOut(Duration),
}

impl From<Interrupted> for Failure {
    fn from(interrupted: Interrupted) -> Self {
        match interrupted {
            Interrupted::Unwanted => Failure::Interrupted,
            Interrupted::TimedOut(limit) => Failure::TimedOut(limit),
        }
    }
}

/// Who wants the results of futures, and for how long.
///
/// Whoever makes [`is_wanted`](Self::is_wanted) false calls [`AsyncDriver::look_again`] afterwards; it may leave that out where
/// it sees, behind a fence, that no future awaits.
pub trait Wanted: Send + Sync {
    /// A future begins to await. Ends with a sequentially consistent fence: [`is_wanted`](Self::is_wanted) is asked next.
    fn begins(&self);
    /// Whether the future is to go on.
    fn is_wanted(&self) -> bool;
    /// The future awaits no more.
    fn ends(&self);
}

#[derive(Default)]
struct Engines {
    /// `None`: futures are wanted until they end.
    wanted: Option<Box<dyn Wanted>>,
    /// Wakes the thread whose future awaits.
    waiting: Mutex<Option<Waker>>,
    own: OnceLock<Option<OwnRuntime>>,
    guest: OnceLock<Option<HelperThread>>,
}

impl AsyncDriver {
    /// A driver that has no runtime yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A driver that has no runtime yet, and drops futures that are not wanted where they await.
    #[must_use]
    pub fn with_wanted(wanted: Box<dyn Wanted>) -> Self {
        let wanted = Some(wanted);
        Self {
            engines: Arc::new(Engines {
                wanted,
                ..Engines::default()
            }),
            limit: None,
        }
    }

    /// Drops futures where they await after `limit`; `None` is without end. A lane needs no limit, since whoever waits for it
    /// has one; whoever runs a future on their own thread does.
    #[must_use]
    pub fn limited(self, limit: impl Into<Option<Duration>>) -> Self {
        let limit = limit.into();
        Self { limit, ..self }
    }

    /// Runs `future` to its end. Works on any thread, also inside a tokio runtime. Where the system refuses a
    /// runtime (no descriptors left) the future is still polled, without timers and sockets.
    ///
    /// # Errors
    /// [`Interrupted`] when it awaited and was not wanted any more, or took too long.
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output, Interrupted> {
        let Some(wanted) = self.engines.wanted.as_deref() else {
            return self.drive(async { Ok(future.await) });
        };
        let mut future = pin!(future);
        let mut awaits = None;
        self.drive(poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Ok(output));
            }
            // The waker first: whoever wants it no more says so and then looks for one.
            *self.engines.waiting.lock() = Some(context.waker().clone());
            awaits.get_or_insert_with(|| Awaits::begin(&self.engines, wanted));
            if wanted.is_wanted() {
                Poll::Pending
            } else {
                Poll::Ready(Err(Interrupted::Unwanted))
            }
        }))
    }

    /// Has the future that awaits in `block_on`, if there is one, look again whether it is wanted.
    pub fn look_again(&self) {
        let waiting = self.engines.waiting.lock().take();
        if let Some(waker) = waiting {
            waker.wake();
        }
    }

    fn drive<T>(&self, future: impl Future<Output = Result<T, Interrupted>>) -> Result<T, Interrupted> {
        if Handle::try_current().is_ok() {
            let helper = self.engines.guest.get_or_init(HelperThread::start);
            let _entered = helper.as_ref().map(|helper| helper.handle.enter());
            return park_on(future, self.limit);
        }
        match (self.engines.own.get_or_init(OwnRuntime::start), self.limit) {
            (Some(OwnRuntime(Some(runtime))), None) => runtime.block_on(future),
            (Some(OwnRuntime(Some(runtime))), Some(limit)) => {
                let ended = runtime.block_on(async { timeout(limit, future).await });
                ended.unwrap_or(Err(Interrupted::TimedOut(limit)))
            }
            _ => park_on(future, self.limit),
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

/// A future that awaits; dropping this says that it awaits no more.
struct Awaits<'a> {
    engines: &'a Engines,
    wanted: &'a dyn Wanted,
}

impl<'a> Awaits<'a> {
    fn begin(engines: &'a Engines, wanted: &'a dyn Wanted) -> Self {
        wanted.begins();
        Self { engines, wanted }
    }
}

impl Drop for Awaits<'_> {
    fn drop(&mut self) {
        drop(self.engines.waiting.lock().take());
        self.wanted.ends();
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

fn park_on<T>(
    future: impl Future<Output = Result<T, Interrupted>>,
    limit: Option<Duration>,
) -> Result<T, Interrupted> {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let until = limit.map(|limit| (limit, deadline_after(limit)));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        match until {
            None => thread::park(),
            Some((limit, until)) => match until.checked_duration_since(Instant::now()) {
                None | Some(Duration::ZERO) => return Err(Interrupted::TimedOut(limit)),
                Some(left) => thread::park_timeout(left),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

    use super::*;

    /// Wanted until it is said otherwise.
    #[derive(Default)]
    struct Asker {
        over: AtomicBool,
        awaiting: AtomicUsize,
    }

    impl Wanted for Arc<Asker> {
        fn begins(&self) {
            self.awaiting.fetch_add(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
        }

        fn is_wanted(&self) -> bool {
            !self.over.load(Ordering::Relaxed)
        }

        fn ends(&self) {
            self.awaiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

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
    fn what_awaits_for_too_long_is_dropped() {
        let limit = Duration::from_millis(1);
        let stuck = Arc::new(());
        let never = || {
            let held = Arc::clone(&stuck);
            async move {
                let _held = held;
                std::future::pending::<u8>().await
            }
        };
        let outer = Builder::new_current_thread().build().unwrap();
        for driver in [
            AsyncDriver::new().limited(limit),
            AsyncDriver::with_wanted(Box::new(Arc::new(Asker::default()))).limited(limit),
        ] {
            let late = Err(Interrupted::TimedOut(limit));
            assert_eq!(driver.block_on(never()), late);
            assert_eq!(outer.block_on(async { driver.block_on(never()) }), late);
            assert_eq!(driver.block_on(async { 1 }), Ok(1), "what need not await ends");
            outer.block_on(async move { drop(driver) });
        }
        assert_eq!(Arc::strong_count(&stuck), 1);
    }

    #[test]
    fn what_awaits_is_dropped_when_it_is_not_wanted() {
        let asker = Arc::new(Asker::default());
        let driver = AsyncDriver::with_wanted(Box::new(Arc::clone(&asker)));
        let (interrupted, stuck) = (driver.clone(), Arc::new(()));
        let held = Arc::clone(&stuck);
        let thread = thread::spawn(move || {
            interrupted.block_on(async move {
                let _held = held;
                std::future::pending::<u8>().await
            })
        });
        asker.over.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if asker.awaiting.load(Ordering::Relaxed) > 0 {
            driver.look_again();
        }
        assert_eq!(thread.join().unwrap(), Err(Interrupted::Unwanted));
        assert_eq!(Arc::strong_count(&stuck), 1);
        assert_eq!(asker.awaiting.load(Ordering::Relaxed), 0);
        assert_eq!(driver.block_on(async { 1 }), Ok(1), "what need not await ends");
    }
}
