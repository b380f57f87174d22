//! The waiter of a call: a promise that is kept once.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::actor::arguments::Returned;
use crate::call::remote_error::RemoteError;
use crate::call::request::CallFault;
use crate::cancel::CallCancel;
use crate::hub::lead::Lead;
use crate::promise::{Answer, Promise, promise, promise_by_letter};

/// The outcome of a call.
pub(crate) type Outcome = Result<Returned, RemoteError>;

/// The waiter of one call. The first answer counts.
pub(crate) struct Waiter {
    open: Mutex<Option<Open>>,
    pub(crate) cancel: Arc<CallCancel>,
}

/// The way to whoever waits.
enum ToWaiter {
    Promise(Promise<Result<Returned, CallFault>>),
    /// A callback that runs no user code.
    Callback(Box<dyn FnOnce(Outcome) + Send>),
}

impl ToWaiter {
    fn tell(self, outcome: Outcome) -> Option<Waker> {
        match self {
            ToWaiter::Promise(promise) => promise.keep_unwoken(outcome.map_err(CallFault::Remote)),
            ToWaiter::Callback(callback) => {
                callback(outcome);
                None
            }
        }
    }
}

struct Open {
    to: ToWaiter,
    /// The drop tells the call's deadline that there is nothing left to do.
    answered: Option<oneshot::Sender<()>>,
}

impl Waiter {
    /// Creates the waiter and the caller's side. With a lead, the answer comes in a letter.
    pub(crate) fn new(lead: Option<Arc<Lead>>) -> (Arc<Self>, Answer<Result<Returned, CallFault>>) {
        let (promise, answer) = lead.map_or_else(promise, promise_by_letter);
        (Self::to(ToWaiter::Promise(promise)), answer)
    }

    /// Creates a waiter that is told by a callback, on any thread. It must not run user code.
    pub(crate) fn of_callback(callback: Box<dyn FnOnce(Outcome) + Send>) -> Arc<Self> {
        Self::to(ToWaiter::Callback(callback))
    }

    fn to(to: ToWaiter) -> Arc<Self> {
        let answered = None;
        Arc::new(Waiter {
            open: Mutex::new(Some(Open { to, answered })),
            cancel: Arc::default(),
        })
    }

    /// Answers, if nobody has. `Some` if this is the answer that counts, with the waker of a caller that awaits it.
    pub(crate) fn answer(&self, outcome: Outcome) -> Option<Option<Waker>> {
        let open = self.open.lock().take()?;
        self.cancel.answered();
        Some(open.to.tell(outcome))
    }

    /// Answers for a call whose time is over, and cancels it.
    pub(crate) fn expire(&self, deadline: Duration) -> Option<Option<Waker>> {
        let open = self.open.lock().take()?;
        self.cancel.cancel();
        Some(open.to.tell(Err(RemoteError::Deadline(deadline))))
    }

    /// A future that completes once the call is answered.
    pub(crate) fn answered(&self) -> Option<oneshot::Receiver<()>> {
        let (sender, receiver) = oneshot::channel();
        self.open.lock().as_mut()?.answered = Some(sender);
        Some(receiver)
    }
}
