//! Async drivers: futures of `async fn` methods are driven on the thread that called the methods.
//!
//! A lane gets a tokio current-thread runtime at its first async method and never before, because most lanes need none.
//! An inline actor may be called on a thread that is already inside the user's tokio runtime, where tokio does not
//! allow a second one to be started. There the calling thread polls the future and parks in between, while a runtime on
//! a helper thread (`selvedge-async`) serves timers and sockets.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::{Builder, EnterGuard, Handle, Runtime};
use tokio::time::timeout;

use crate::cancel::CallCancel;
use crate::cell::helper_thread::HelperThread;
use crate::{Failure, deadline_after};

/// Runs futures to completion on the current thread. Clones share the runtime behind the driver.
#[derive(Clone, Default)]
pub struct AsyncDriver {
    engines: Arc<Engines>,
    runtimes: Arc<Runtimes>,
    /// The time limit of a future. `None` is no limit.
    limit: Option<Duration>,
    /// The ordinary call whose method runs.
    call: Option<Arc<CallCancel>>,
}

/// The reason that a future was dropped at an await point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupted {
    /// The result is no longer wanted.
    Unwanted,
    /// The future exceeded this time limit.
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

/// A source that knows whether the results of futures are still wanted.
///
/// Code that makes [`is_wanted`](Self::is_wanted) return `false` must call [`AsyncDriver::look_again`] afterwards. It
/// may omit the call if it sees, behind a fence, that no future awaits.
pub trait Wanted: Send + Sync {
    /// Records that a future begins to await. Ends with a sequentially consistent fence, because
    /// [`is_wanted`](Self::is_wanted) is asked next.
    fn begins(&self);
    /// Whether the future is to continue.
    fn is_wanted(&self) -> bool;
    /// Records that the future no longer awaits.
    fn ends(&self);
}

#[derive(Default)]
struct Engines {
    /// Knows whether results are wanted. If `None`, futures are wanted until they complete.
    wanted: Option<Box<dyn Wanted>>,
    /// Wakes the thread whose future awaits.
    waiting: Mutex<Option<Waker>>,
}

/// The runtimes of a driver, started when they are first needed.
#[derive(Default)]
struct Runtimes {
    own: OnceLock<Option<OwnRuntime>>,
    guest: OnceLock<Option<HelperThread>>,
}

impl AsyncDriver {
    /// Creates a driver. The runtime is started when it is first needed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a driver that drops futures at an await point once they are not wanted. The runtime is started when it
    /// is first needed.
    #[must_use]
    pub fn with_wanted(wanted: Box<dyn Wanted>) -> Self {
        let wanted = Some(wanted);
        Self {
            engines: Arc::new(Engines {
                wanted,
                ..Engines::default()
            }),
            ..Self::default()
        }
    }

    /// Runs futures on the runtime of `other` from now on, so that a socket or timer made by one driver's future serves
    /// futures of the other. Both drivers may run at a time.
    #[must_use]
    pub fn sharing(self, other: &Self) -> Self {
        let runtimes = Arc::clone(&other.runtimes);
        Self { runtimes, ..self }
    }

    /// Sets a time limit after which futures are dropped at an await point; `None` is no limit. A lane needs no limit,
    /// because the thread that waits for the lane has one. A caller that runs a future on its own thread needs a limit.
    #[must_use]
    pub fn limited(self, limit: impl Into<Option<Duration>>) -> Self {
        let limit = limit.into();
        Self { limit, ..self }
    }

    /// Returns the driver for the method of one ordinary call, whose future is dropped where it awaits once the call is
    /// cancelled.
    pub(crate) fn for_call(&self, call: Arc<CallCancel>) -> Self {
        let call = Some(call);
        Self { call, ..self.clone() }
    }

    /// Makes the runtime of the helper thread the present one, for a future that this thread polls. `None` if the system
    /// refuses a runtime.
    pub(crate) fn enter(&self) -> Option<EnterGuard<'_>> {
        let helper = self.runtimes.guest.get_or_init(HelperThread::start);
        helper.as_ref().map(HelperThread::enter)
    }

    /// Tells the helper thread that a future awaits, which may have set a timer.
    pub(crate) fn awaits(&self) {
        if let Some(Some(helper)) = self.runtimes.guest.get() {
            helper.awaits();
        }
    }

    /// Runs `future` to completion on this thread, which may be inside a tokio runtime. If the system refuses a runtime
    /// (no descriptors left), the future is still polled, without timers and sockets.
    ///
    /// # Errors
    /// [`Interrupted`] if the future awaited and was no longer wanted, or if it exceeded the time limit. The future of a
    /// call that was cancelled before is not polled at all.
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output, Interrupted> {
        if self.call.as_ref().is_some_and(|call| call.is_cancelled()) {
            return Err(Interrupted::Unwanted);
        }
        let mut future = pin!(future);
        let Some(wanted) = self.engines.wanted.as_deref() else {
            return self.drive(poll_fn(|context| match future.as_mut().poll(context) {
                Poll::Ready(output) => Poll::Ready(Ok(output)),
                Poll::Pending if self.is_cancelled(context.waker()) => {
                    Poll::Ready(Err(Interrupted::Unwanted))
                }
                Poll::Pending => Poll::Pending,
            }));
        };
        let mut awaits = None;
        self.drive(poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Ok(output));
            }
            // The waker is stored before `is_wanted` is asked: code that withdraws its interest first says so and then
            // looks for a waker.
            *self.engines.waiting.lock() = Some(context.waker().clone());
            awaits.get_or_insert_with(|| Awaits::begin(&self.engines, wanted));
            if wanted.is_wanted() {
                Poll::Pending
            } else {
                Poll::Ready(Err(Interrupted::Unwanted))
            }
        }))
    }

    /// Whether the call was cancelled. If not, its cancellation wakes `waker`.
    fn is_cancelled(&self, waker: &Waker) -> bool {
        self.call.as_ref().is_some_and(|call| call.listen(waker))
    }

    /// Makes the future that awaits in `block_on`, if there is one, ask again whether it is wanted.
    pub fn look_again(&self) {
        let waiting = self.engines.waiting.lock().take();
        if let Some(waker) = waiting {
            waker.wake();
        }
    }

    fn drive<T>(&self, future: impl Future<Output = Result<T, Interrupted>>) -> Result<T, Interrupted> {
        if Handle::try_current().is_ok() {
            let _entered = self.enter();
            return park_on(future, self.limit);
        }
        match (self.runtimes.own.get_or_init(OwnRuntime::start), self.limit) {
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
            .field("started", &self.runtimes.own.get().is_some())
            .finish()
    }
}

/// A future that awaits. The drop records that it no longer does.
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

/// A tokio runtime that may be dropped anywhere. The drop of a plain tokio runtime panics inside another runtime.
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

struct Unpark {
    thread: Thread,
    /// Set by each wake, beside the token of `park`: the future may park too, as a channel of the standard library does, and use up
    /// the token.
    is_woken: AtomicBool,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        // SYNC park-woken, release side: the next poll sees what was done before the wake.
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Polls a future on this thread, and parks it meanwhile.
pub(crate) fn park_on<T>(
    future: impl Future<Output = Result<T, Interrupted>>,
    limit: Option<Duration>,
) -> Result<T, Interrupted> {
    let mut future = pin!(future);
    let unpark = Arc::new(Unpark {
        thread: thread::current(),
        is_woken: AtomicBool::new(false),
    });
    let waker = Waker::from(Arc::clone(&unpark));
    let mut context = Context::from_waker(&waker);
    let until = limit.map(|limit| (limit, deadline_after(limit)));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        let left = match until {
            None => None,
            Some((limit, until)) => match until.checked_duration_since(Instant::now()) {
                None | Some(Duration::ZERO) => return Err(Interrupted::TimedOut(limit)),
                left => left,
            },
        };
        // SYNC park-woken, acquire side. No other code runs between the look and the sleep, so the token of a wake in between is still
        // there.
        if !unpark.is_woken.swap(false, Ordering::AcqRel) {
            left.map_or_else(thread::park, thread::park_timeout);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, fence};

    use super::*;

    /// Wanted until `over` is set.
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
    fn a_wake_is_not_lost_with_the_token_of_park() {
        let (ended, ends) = std::sync::mpsc::channel();
        thread::spawn(move || {
            let mut has_waited = false;
            let uses_up_the_token = poll_fn(|context| {
                if std::mem::replace(&mut has_waited, true) {
                    return Poll::Ready(7);
                }
                context.waker().wake_by_ref();
                // As code that waits by blocking does.
                thread::park();
                Poll::Pending
            });
            let outer = Builder::new_current_thread().build().unwrap();
            let driver = AsyncDriver::new();
            ended.send(outer.block_on(async { driver.block_on(uses_up_the_token) }))
        });
        assert_eq!(ends.recv_timeout(Duration::from_secs(20)), Ok(Ok(7)));
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
