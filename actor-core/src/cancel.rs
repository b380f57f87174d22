//! Cancellation: how a method learns that its result is no longer wanted.
//!
//! A method asks for its token where it runs ([`cancellation`]). The code that calls a method leaves a [`Scope`] on the
//! thread meanwhile. A lane leaves one scope for its whole program, which names the execution that the lane is at; so an
//! execution pays nothing for a token that nobody asks for.
#![allow(unsafe_code)] // the thread's scope is a pointer to a borrow that `within` holds

use std::cell::Cell;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Instant;

use parking_lot::Mutex;

use crate::failure::wake;
use crate::promise::{Answer, NoAnswer};
use crate::sleeper::Sleeper;

/// The executions of a program, as its methods see them.
pub trait Executions: Send + Sync {
    /// The number of the execution that the lane is at.
    fn current(&self) -> u64;

    /// Whether the results of an execution are no longer wanted.
    fn is_cancelled(&self, execution: u64) -> bool;
}

/// Tells a method whether its result is still wanted. A method gets its token by [`cancellation`], and may hand clones of
/// it to other threads.
///
/// The result of a task is unwanted once the last handle of its execution was dropped, also by a wait that timed out, or
/// once its graph has ended. The result of a call is unwanted once the [`Call`](crate::Call) was dropped. A token that
/// outlives its method says nothing.
///
/// ```
/// let token = selvedge_core::cancellation();
/// for _block in 0..1000 {
///     if token.is_cancelled() {
///         break;
///     }
///     // Compute one block.
/// }
/// ```
#[derive(Clone)]
pub struct Cancellation(Source);

#[derive(Clone)]
enum Source {
    Never,
    Call(Arc<CallCancel>),
    Execution(Arc<dyn Executions>, u64),
}

impl Cancellation {
    /// The token of one execution.
    #[doc(hidden)] // for the compiler
    #[must_use]
    pub fn of_execution(executions: Arc<dyn Executions>, execution: u64) -> Self {
        Cancellation(Source::Execution(executions, execution))
    }

    pub(crate) fn of_call(call: Arc<CallCancel>) -> Self {
        Cancellation(Source::Call(call))
    }

    /// Waits for an answer until the deadline, or until the result of the call is no longer wanted.
    pub(crate) fn wait_for<T>(
        &self,
        answer: &mut Answer<T>,
        deadline: Option<Instant>,
    ) -> Result<Option<Result<T, NoAnswer>>, Unwanted> {
        let sleeper = answer.sleeper();
        let wanted = match answer.listen(&sleeper) {
            true => self.sleep(&sleeper, deadline, || answer.is_open()),
            false => Ok(()),
        };
        match answer.try_take() {
            None => wanted.map(|()| None),
            answered => Ok(answered),
        }
    }

    /// Sleeps until the deadline, as long as `goes_on` says and the result of the call is wanted.
    pub(crate) fn sleep(
        &self,
        sleeper: &Arc<Sleeper>,
        deadline: Option<Instant>,
        goes_on: impl Fn() -> bool,
    ) -> Result<(), Unwanted> {
        let Source::Call(call) = &self.0 else {
            sleeper.sleep(deadline, goes_on);
            return Ok(());
        };
        call.set_sleeper(Some(Arc::clone(sleeper)));
        sleeper.sleep(deadline, || !call.is_cancelled() && goes_on());
        call.set_sleeper(None);
        match call.is_cancelled() {
            true => Err(Unwanted),
            false => Ok(()),
        }
    }

    /// Whether the method's result is no longer wanted. Costs one or two loads.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        match &self.0 {
            Source::Never => false,
            Source::Call(call) => call.is_cancelled(),
            Source::Execution(executions, execution) => executions.is_cancelled(*execution),
        }
    }
}

impl fmt::Debug for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancellation")
            .field("is_cancelled", &self.is_cancelled())
            .finish()
    }
}

/// An error: the call that waited was cancelled.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unwanted;

/// The call or the execution that the methods on a thread belong to.
pub enum Scope {
    /// One call or one execution.
    Of(Cancellation),
    /// The execution that a lane is at.
    Lane(Arc<dyn Executions>),
}

thread_local! {
    static HERE: Cell<Option<NonNull<Scope>>> = const { Cell::new(None) };
}

/// Puts back the scope that was there before.
struct Before(Option<NonNull<Scope>>);

impl Drop for Before {
    #[inline]
    fn drop(&mut self) {
        HERE.set(self.0);
    }
}

/// Runs `act` with `scope` as the scope of this thread.
#[inline]
pub fn within<R>(scope: &Scope, act: impl FnOnce() -> R) -> R {
    let _before = Before(HERE.replace(Some(NonNull::from(scope))));
    act()
}

/// The token of the method that runs on this thread. Outside of a method, the token is never cancelled.
///
/// Ask for it on the method's own thread; clones of the token work on any thread.
#[must_use]
pub fn cancellation() -> Cancellation {
    here(|scope| match scope {
        None => Cancellation(Source::Never),
        Some(Scope::Of(cancellation)) => cancellation.clone(),
        Some(Scope::Lane(executions)) => {
            Cancellation::of_execution(Arc::clone(executions), executions.current())
        }
    })
}

/// Looks at the scope of this thread.
fn here<R>(look: impl FnOnce(Option<&Scope>) -> R) -> R {
    // SAFETY: `within` borrows the scope until `act` has returned, and takes the pointer away before.
    look(HERE.get().map(|scope| unsafe { scope.as_ref() }))
}

/// Notes that the function of the call on this thread is about to begin; false if the call was withdrawn.
pub(crate) fn begin_here() -> bool {
    here(|scope| match scope {
        Some(Scope::Of(Cancellation(Source::Call(call)))) => call.begin(),
        _ => true,
    })
}

/// The stages of a call that may be withdrawn: its function has not begun, has begun, or will not.
const WAITS: u8 = 0;
const BEGUN: u8 = 1;
const WITHDRAWN: u8 = 2;

/// The way on which a call was sent, and can be taken back.
pub(crate) trait Recall: Send + Sync {
    /// Takes back the call that was sent under this number: nobody wants its answer.
    fn recall(&self, number: u64);
}

/// A call that was sent: whoever cancels it tells the way on which it went, if that is still there.
pub(crate) struct SentCall {
    pub(crate) way: Weak<dyn Recall>,
    pub(crate) number: u64,
}

impl SentCall {
    fn recall(self) {
        if let Some(way) = self.way.upgrade() {
            way.recall(self.number);
        }
    }
}

#[derive(Default)]
struct Listeners {
    /// The waker of the future that runs the method.
    waker: Option<Waker>,
    /// The thread that runs the method, while it waits.
    sleeper: Option<Arc<Sleeper>>,
    sent: Option<SentCall>,
}

/// Whether one ordinary call is still wanted. Shared by the caller, the call's way, and its method.
#[derive(Default)]
pub(crate) struct CallCancel {
    cancelled: AtomicBool,
    stage: AtomicU8,
    listeners: Mutex<Listeners>,
}

impl CallCancel {
    pub(crate) fn is_cancelled(&self) -> bool {
        // SYNC call-cancelled: pairs with the store in `cancel`.
        self.cancelled.load(Ordering::Acquire)
    }

    /// Cancels the call, and tells those that listen.
    pub(crate) fn cancel(&self) {
        // SYNC call-cancelled: stored before the listeners are taken, so a later listener sees it.
        self.cancelled.store(true, Ordering::Release);
        let Listeners { waker, sleeper, sent } = std::mem::take(&mut *self.listeners.lock());
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
        if let Some(sent) = sent {
            sent.recall();
        }
        if let Some(waker) = waker {
            wake(waker);
        }
    }

    /// Notes that the function is about to begin; false if the call was withdrawn.
    pub(crate) fn begin(&self) -> bool {
        // Relaxed: the stage decides between the two alone, and publishes nothing.
        let before = self
            .stage
            .compare_exchange(WAITS, BEGUN, Ordering::Relaxed, Ordering::Relaxed);
        before != Err(WITHDRAWN)
    }

    /// Takes the call back, unless its function has begun. Then it ends soon, without having run.
    pub(crate) fn withdraw(&self) {
        // Relaxed: as in `begin`. Whoever listens is woken after it, by way of the lock.
        let before = self
            .stage
            .compare_exchange(WAITS, WITHDRAWN, Ordering::Relaxed, Ordering::Relaxed);
        let waker = before
            .is_ok()
            .then(|| self.listeners.lock().waker.take())
            .flatten();
        if let Some(waker) = waker {
            wake(waker);
        }
    }

    /// Whether the call was withdrawn before its function had begun.
    pub(crate) fn is_withdrawn(&self) -> bool {
        // Relaxed: as in `begin`. One who listens does so under the lock, and looks after it.
        self.stage.load(Ordering::Relaxed) == WITHDRAWN
    }

    /// Sets the waker of the future that runs the method; returns whether the call is cancelled.
    pub(crate) fn listen(&self, waker: &Waker) -> bool {
        let mut listeners = self.listeners.lock();
        let known = listeners.waker.as_ref();
        let before = if known.is_some_and(|known| known.will_wake(waker)) {
            None
        } else {
            listeners.waker.replace(waker.clone())
        };
        drop(listeners);
        drop(before);
        self.is_cancelled()
    }

    /// Sets the thread that runs the method, which is about to wait or has waited.
    fn set_sleeper(&self, sleeper: Option<Arc<Sleeper>>) {
        self.listeners.lock().sleeper = sleeper;
    }

    /// Whether a thread waits for something that the call's method needs.
    #[cfg(test)]
    pub(crate) fn is_slept_on(&self) -> bool {
        self.listeners.lock().sleeper.is_some()
    }

    /// Passes the call on with `send`, and notes how it went. A cancelled call is not passed on.
    ///
    /// A cancellation waits for `send` and then recalls the call on its own thread. So the recall follows the call, and
    /// precedes all that the thread sends after the cancellation.
    pub(crate) fn pass_on<E>(&self, send: impl FnOnce() -> Result<SentCall, E>) -> Result<(), E> {
        let mut listeners = self.listeners.lock();
        if !self.is_cancelled() {
            listeners.sent = Some(send()?);
        }
        Ok(())
    }

    /// Notes how the call is sent; recalls it at once if it is cancelled.
    pub(crate) fn sent(&self, sent: SentCall) {
        let before = self.listeners.lock().sent.replace(sent);
        drop(before);
        if self.is_cancelled() {
            let sent = self.listeners.lock().sent.take();
            if let Some(sent) = sent {
                sent.recall();
            }
        }
    }

    /// Forgets those that listen: the call is answered.
    pub(crate) fn answered(&self) {
        let before = std::mem::take(&mut *self.listeners.lock());
        drop(before);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    /// Adds up the numbers of the calls that were recalled.
    #[derive(Default)]
    struct Way(AtomicU64);

    impl Recall for Way {
        fn recall(&self, number: u64) {
            self.0.fetch_add(number, Ordering::Relaxed);
        }
    }

    impl Way {
        fn sent(self: &Arc<Self>, number: u64) -> SentCall {
            let way = Arc::downgrade(self) as Weak<dyn Recall>;
            SentCall { way, number }
        }
    }

    struct Odd(AtomicU64);

    impl Executions for Odd {
        fn current(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }

        fn is_cancelled(&self, execution: u64) -> bool {
            execution % 2 == 1
        }
    }

    #[test]
    fn a_token_belongs_to_the_execution_at_which_it_was_asked_for() {
        assert!(!cancellation().is_cancelled(), "outside of a method");
        let lane = Arc::new(Odd(AtomicU64::new(1)));
        let scope = Scope::Lane(Arc::clone(&lane) as Arc<dyn Executions>);
        within(&scope, || {
            let odd = cancellation();
            lane.0.store(2, Ordering::Relaxed);
            assert!(odd.is_cancelled() && !cancellation().is_cancelled());
            let call = Arc::new(CallCancel::default());
            within(&Scope::Of(Cancellation::of_call(Arc::clone(&call))), || {
                let token = cancellation();
                assert!(!token.is_cancelled());
                call.cancel();
                assert!(token.is_cancelled());
            });
            assert!(!cancellation().is_cancelled(), "the lane's scope is back");
        });
    }

    #[test]
    fn a_call_is_withdrawn_only_before_its_function_begins() {
        let (begun, waiting) = (Arc::new(CallCancel::default()), CallCancel::default());
        within(&Scope::Of(Cancellation::of_call(Arc::clone(&begun))), || {
            assert!(begin_here());
        });
        begun.withdraw();
        assert!(!begun.is_withdrawn() && begun.begin());
        waiting.withdraw();
        assert!(waiting.is_withdrawn() && !waiting.begin() && !waiting.is_cancelled());
        assert!(begin_here(), "outside of a call");
    }

    #[test]
    fn a_call_is_passed_on_and_can_be_recalled_or_is_not_passed_on_at_all() {
        let way = Arc::new(Way::default());
        let pass_on = |call: &CallCancel| {
            call.pass_on::<()>(|| {
                way.0.fetch_add(1, Ordering::Relaxed);
                Ok(way.sent(10))
            })
        };
        let (passed, late) = (CallCancel::default(), CallCancel::default());
        assert_eq!(pass_on(&passed), Ok(()));
        passed.cancel();
        assert_eq!(way.0.load(Ordering::Relaxed), 11);
        late.cancel();
        assert_eq!(pass_on(&late), Ok(()));
        assert_eq!(way.0.load(Ordering::Relaxed), 11, "neither passed on nor told");
    }

    #[test]
    fn whoever_listens_is_told_once_also_if_the_call_is_cancelled_already() {
        let (call, way) = (CallCancel::default(), Arc::new(Way::default()));
        call.sent(way.sent(1));
        call.cancel();
        call.cancel();
        assert_eq!(way.0.load(Ordering::Relaxed), 1);
        call.sent(way.sent(1));
        assert_eq!(way.0.load(Ordering::Relaxed), 2);
        assert!(call.listen(Waker::noop()));
    }
}
