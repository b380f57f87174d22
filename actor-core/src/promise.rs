//! Promises: one answer from one thread to another, waited for by blocking or by `.await`.
//!
//! A tokio oneshot channel does not support a blocking wait inside a tokio runtime, and users call from there. So a
//! promise is a mutex, and a waker or a thread that sleeps. Wakers are user code: the lock is not held while one is cloned,
//! dropped or woken.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use parking_lot::Mutex;
use selvedge_channels::dispose;

use crate::failure::wake;
use crate::hub::lead::Lead;
use crate::sleeper::Sleeper;

/// The reason why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// The promise was dropped.
    Broken,
    /// The answer has been taken already.
    Taken,
}

enum PromiseState<T> {
    Open(Waiting),
    Kept(T),
    Broken,
    Taken,
}

/// The waiting side: a task that has polled, and a thread that waits after that.
#[derive(Default)]
struct Waiting {
    waker: Option<Waker>,
    thread: Option<Arc<Sleeper>>,
}

struct Shared<T> {
    state: Mutex<PromiseState<T>>,
    /// The lead that a thread takes while it waits.
    lead: Option<Arc<Lead>>,
}

/// The side that gives the answer. Dropped without one, the promise is [broken](NoAnswer::Broken).
pub struct Promise<T> {
    shared: Option<Arc<Shared<T>>>,
}

/// The side that waits for the answer.
pub struct Answer<T> {
    shared: Arc<Shared<T>>,
}

/// Creates both sides of an answer.
#[must_use]
pub fn promise<T>() -> (Promise<T>, Answer<T>) {
    with_lead(None)
}

/// Creates both sides of an answer that comes in a letter. A thread that waits for it reads the letters itself, if no other
/// one does.
pub(crate) fn promise_by_letter<T>(lead: Arc<Lead>) -> (Promise<T>, Answer<T>) {
    with_lead(Some(lead))
}

fn with_lead<T>(lead: Option<Arc<Lead>>) -> (Promise<T>, Answer<T>) {
    let shared = Arc::new(Shared {
        state: Mutex::new(PromiseState::Open(Waiting::default())),
        lead,
    });
    (
        Promise {
            shared: Some(Arc::clone(&shared)),
        },
        Answer { shared },
    )
}

impl<T> Promise<T> {
    /// Gives the answer.
    pub fn keep(mut self, value: T) {
        if let Some(waker) = self.complete(PromiseState::Kept(value)) {
            wake(waker);
        }
    }

    /// Gives the answer, and returns the waker of the side that awaits it, for a thread that may run user code.
    #[must_use]
    pub(crate) fn keep_unwoken(mut self, value: T) -> Option<Waker> {
        self.complete(PromiseState::Kept(value))
    }

    /// Whether nobody waits for the answer any more.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        // The waiting side holds the other count.
        self.shared
            .as_ref()
            .is_none_or(|shared| Arc::strong_count(shared) == 1)
    }

    fn complete(&mut self, outcome: PromiseState<T>) -> Option<Waker> {
        let shared = self.shared.take()?;
        let previous = std::mem::replace(&mut *shared.state.lock(), outcome);
        // If the waiting side is gone, the answer is dropped here.
        dispose(shared);
        let PromiseState::Open(waiting) = previous else {
            return None;
        };
        if let Some(thread) = waiting.thread {
            thread.wake();
        }
        waiting.waker
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        if let Some(waker) = self.complete(PromiseState::Broken) {
            wake(waker);
        }
    }
}

impl<T> Answer<T> {
    /// Creates an answer that is already there.
    #[must_use]
    pub fn ready(value: T) -> Self {
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(PromiseState::Kept(value)),
                lead: None,
            }),
        }
    }

    /// Takes the answer if it is there, without waiting for it.
    ///
    /// # Errors
    /// [`NoAnswer`].
    pub fn try_take(&mut self) -> Option<Result<T, NoAnswer>> {
        take(&mut self.shared.state.lock())
    }

    /// Waits for the answer; returns `None` if the deadline passes first. Without a deadline, the wait ends when the
    /// promise is kept or dropped.
    ///
    /// # Errors
    /// [`NoAnswer`].
    pub fn wait(&mut self, deadline: Option<Instant>) -> Option<Result<T, NoAnswer>> {
        let sleeper = self.sleeper();
        if self.listen(&sleeper) {
            sleeper.sleep(deadline, || self.is_open());
        }
        self.try_take()
    }

    /// The thread that is about to wait.
    pub(crate) fn sleeper(&self) -> Arc<Sleeper> {
        Sleeper::new(self.shared.lead.clone())
    }

    /// Has the answer wake this thread. Returns whether it is still to come.
    pub(crate) fn listen(&self, sleeper: &Arc<Sleeper>) -> bool {
        let mut state = self.shared.state.lock();
        let PromiseState::Open(waiting) = &mut *state else {
            return false;
        };
        waiting.thread = Some(Arc::clone(sleeper));
        true
    }

    /// Whether the answer is still to come.
    pub(crate) fn is_open(&self) -> bool {
        matches!(*self.shared.state.lock(), PromiseState::Open(_))
    }

    /// Polls for the answer, and has the context's waker woken when it comes.
    ///
    /// # Errors
    /// [`NoAnswer`].
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<T, NoAnswer>> {
        let mut state = self.shared.state.lock();
        match &*state {
            PromiseState::Open(waiting) => {
                if waiting
                    .waker
                    .as_ref()
                    .is_some_and(|known| known.will_wake(context.waker()))
                {
                    return Poll::Pending;
                }
            }
            _ => return take(&mut state).map_or(Poll::Pending, Poll::Ready),
        }
        drop(state);
        let waker = context.waker().clone();
        let mut state = self.shared.state.lock();
        let PromiseState::Open(waiting) = &mut *state else {
            return take(&mut state).map_or(Poll::Pending, Poll::Ready);
        };
        let previous = waiting.waker.replace(waker);
        drop(state);
        drop(previous);
        Poll::Pending
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        // The waker goes with the waiting side, and so does an answer that nobody has taken. Both are user code.
        let left = std::mem::replace(&mut *self.shared.state.lock(), PromiseState::Taken);
        dispose(left);
    }
}

impl<T> Future for Answer<T> {
    type Output = Result<T, NoAnswer>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().poll(context)
    }
}

fn take<T>(state: &mut PromiseState<T>) -> Option<Result<T, NoAnswer>> {
    match std::mem::replace(state, PromiseState::Taken) {
        PromiseState::Kept(value) => Some(Ok(value)),
        PromiseState::Broken => Some(Err(NoAnswer::Broken)),
        // Another wait after the answer was taken must not last for ever.
        PromiseState::Taken => Some(Err(NoAnswer::Taken)),
        open @ PromiseState::Open(_) => {
            *state = open;
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_answer_crosses_threads() {
        let (promise, mut answer) = promise();
        let thread = std::thread::spawn(move || promise.keep(5));
        assert_eq!(answer.wait(None), Some(Ok(5)));
        assert_eq!(answer.wait(None), Some(Err(NoAnswer::Taken)));
        thread.join().unwrap();
    }

    #[test]
    fn a_dropped_promise_is_broken_and_a_deadline_ends_the_wait() {
        let (promise, mut answer) = promise::<u8>();
        assert_eq!(answer.wait(Some(Instant::now() + Duration::from_millis(1))), None);
        assert!(!promise.is_abandoned());
        drop(promise);
        assert_eq!(answer.wait(None), Some(Err(NoAnswer::Broken)));
    }

    struct Tells(std::sync::mpsc::Sender<()>);

    impl std::task::Wake for Tells {
        fn wake(self: Arc<Self>) {
            self.0.send(()).unwrap();
        }
    }

    #[test]
    fn a_task_that_has_polled_is_woken_though_a_thread_waits_too() {
        let (promise, mut answer) = promise::<u8>();
        let (sender, woken) = std::sync::mpsc::channel();
        let waker = Waker::from(Arc::new(Tells(sender)));
        assert!(answer.poll(&mut Context::from_waker(&waker)).is_pending());
        let soon = Instant::now() + Duration::from_millis(1);
        assert_eq!(answer.wait(Some(soon)), None);
        let thread = std::thread::spawn(move || answer.wait(None));
        promise.keep(5);
        assert_eq!(thread.join().unwrap(), Some(Ok(5)));
        assert_eq!(woken.recv_timeout(Duration::from_secs(20)), Ok(()));
    }

    struct PanicsEverywhere;

    impl std::task::Wake for PanicsEverywhere {
        fn wake(self: Arc<Self>) {
            std::panic::resume_unwind(Box::new(PanicsEverywhere));
        }
    }

    impl Drop for PanicsEverywhere {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("a bomb"));
        }
    }

    #[test]
    fn whoever_keeps_a_promise_is_spared_the_wakers_panic_and_the_values() {
        let (promise, mut answer) = super::promise();
        let waker = Waker::from(Arc::new(PanicsEverywhere));
        assert!(answer.poll(&mut Context::from_waker(&waker)).is_pending());
        std::mem::forget(waker);
        promise.keep(5);
        assert_eq!(answer.wait(None), Some(Ok(5)));
        let (promise, answer) = super::promise();
        drop(answer);
        assert!(promise.is_abandoned());
        promise.keep(PanicsEverywhere);
    }
}
