//! A call where its function runs.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use selvedge_channels::dispose;

use crate::call::remote_error::RemoteError;
use crate::cancel::{CallCancel, Cancellation, Scope, within};
use crate::current::{Current, within_current};
use crate::failure::Failure;
use crate::remote::executor::{Executor, WorkRefusal};
use crate::remote::function::{Ended, FunctionEntry, FunctionFault, Invocation, Running};
use crate::remote::init::WorkerInit;
use crate::remote::piece::Piece;
use crate::remote::resolving::ResolvingJob;
use crate::remote::waiter::Outcome;

/// A callback for the outcome.
pub(crate) type Reply = Box<dyn FnOnce(Outcome) + Send>;

/// A call where its function runs. An outcome is given once, unless the process ends before.
pub(crate) struct RemoteJob {
    pub(crate) function: &'static FunctionEntry,
    pub(crate) invocation: Invocation,
    pub(crate) cancel: Arc<CallCancel>,
    pub(crate) current: Arc<Current>,
    pub(crate) init: &'static WorkerInit,
    pub(crate) reply: Reply,
}

impl RemoteJob {
    /// Runs a function that blocks. `executor` gets the call back if it waits for arguments.
    pub(crate) fn run(self, executor: &Executor<Piece>) {
        let RemoteJob {
            function,
            invocation,
            cancel,
            current,
            init,
            reply,
        } = self;
        if cancel.is_cancelled() {
            dispose(invocation);
            return reply(Err(RemoteError::Failed(Failure::Interrupted)));
        }
        if cancel.is_withdrawn() {
            dispose(invocation);
            return reply(Err(RemoteError::Cancelled));
        }
        let scope = Scope::Of(Cancellation::of_call(Arc::clone(&cancel)));
        match begin(function, invocation, init, &current, &scope) {
            Ok(Running::Done(ended)) => reply(ended.map_err(fault)),
            Ok(Running::Future(_)) => reply(Err(internal("an async function on a thread that blocks"))),
            Ok(Running::Resolving(ended)) => match executor.rest() {
                Ok(resting) => ResolvingJob {
                    ended,
                    cancel,
                    current,
                    reply,
                    executor: executor.clone(),
                    resting,
                }
                .run(),
                Err(why) => {
                    dispose(ended);
                    reply(Err(why.into()));
                }
            },
            Err(error) => reply(Err(error)),
        }
    }

    /// The function will not run.
    pub(crate) fn refuse(self, why: WorkRefusal) {
        dispose(self.invocation);
        (self.reply)(Err(why.into()));
    }

    /// Runs an async function. Its future is dropped where it awaits once the call is cancelled.
    pub(crate) async fn run_async(self) {
        let RemoteJob {
            function,
            invocation,
            cancel,
            current,
            init,
            reply,
        } = self;
        let scope = Scope::Of(Cancellation::of_call(Arc::clone(&cancel)));
        let running = begin(function, invocation, init, &current, &scope);
        let mut future = match running {
            Ok(Running::Future(future)) => future,
            Ok(Running::Done(outcome)) => return reply(outcome.map_err(fault)),
            Ok(Running::Resolving(_)) => {
                return reply(Err(internal(
                    "a function that blocks on the thread of async ones",
                )));
            }
            Err(error) => return reply(Err(error)),
        };
        let outcome = poll_fn(|context| polled(future.as_mut(), context, &cancel, &current)).await;
        dispose(future);
        cancel.answered();
        reply(outcome.map_err(fault));
    }
}

/// Prepares the process, and runs the function or creates its future.
fn begin(
    function: &'static FunctionEntry,
    invocation: Invocation,
    init: &WorkerInit,
    current: &Arc<Current>,
    scope: &Scope,
) -> Result<Running, RemoteError> {
    within_current(current, || {
        within(scope, || {
            init.ensure().map_err(RemoteError::WorkerInit)?;
            Ok(function.run(invocation))
        })
    })
}

/// Polls the future of a call; the cancellation of the call wakes it, and ends it.
pub(super) fn polled<F: Future<Output = Ended> + ?Sized>(
    mut future: Pin<&mut F>,
    context: &mut Context<'_>,
    cancel: &Arc<CallCancel>,
    current: &Arc<Current>,
) -> Poll<Ended> {
    if cancel.listen(context.waker()) {
        return Poll::Ready(Err(FunctionFault::Failed(Failure::Interrupted)));
    }
    if cancel.is_withdrawn() {
        return Poll::Ready(Err(FunctionFault::Withdrawn));
    }
    let scope = Scope::Of(Cancellation::of_call(Arc::clone(cancel)));
    let mut poll = || Ok(future.as_mut().poll(context));
    let polled = within_current(current, || within(&scope, || Failure::catch(&mut poll)));
    polled.unwrap_or_else(|panic| Poll::Ready(Err(FunctionFault::Failed(panic))))
}

pub(super) fn fault(fault: FunctionFault) -> RemoteError {
    match fault {
        FunctionFault::Arguments(failure) => RemoteError::Arguments(failure.into_report()),
        FunctionFault::Failed(failure) => RemoteError::Failed(failure),
        FunctionFault::Withdrawn => RemoteError::Cancelled,
    }
}

fn internal(text: &str) -> RemoteError {
    RemoteError::Failed(Failure::Internal(text.to_owned()))
}
