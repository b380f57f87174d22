//! A call where its function runs.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use selvedge_channels::dispose;

use crate::call::remote_error::RemoteError;
use crate::cancel::{CallCancel, Cancellation, Scope, within};
use crate::current::{Current, within_current};
use crate::failure::Failure;
use crate::remote::executor::{Work, WorkRefusal};
use crate::remote::function::{FunctionEntry, FunctionFault, Invocation, Running};
use crate::remote::init::WorkerInit;
use crate::remote::waiter::Outcome;

/// A callback for the outcome.
type Reply = Box<dyn FnOnce(Outcome) + Send>;

/// A call where its function runs. An outcome is given once, unless the process ends before.
pub(crate) struct RemoteJob {
    pub(crate) function: &'static FunctionEntry,
    pub(crate) invocation: Invocation,
    pub(crate) cancel: Arc<CallCancel>,
    pub(crate) current: Arc<Current>,
    pub(crate) init: &'static WorkerInit,
    pub(crate) reply: Reply,
}

impl Work for RemoteJob {
    fn run(self) {
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
        let scope = Scope::Of(Cancellation::of_call(cancel));
        let running = begin(function, invocation, init, &current, &scope);
        reply(running.and_then(|running| match running {
            Running::Done(outcome) => outcome.map_err(fault),
            Running::Future(_) => Err(internal("an async function on a thread that blocks")),
        }));
    }

    fn refuse(self, why: WorkRefusal) {
        dispose(self.invocation);
        (self.reply)(Err(why.into()));
    }
}

impl RemoteJob {
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
            Err(error) => return reply(Err(error)),
        };
        let outcome = poll_fn(|context| {
            if cancel.listen(context.waker()) {
                return Poll::Ready(Err(FunctionFault::Failed(Failure::Interrupted)));
            }
            let mut poll = || Ok(future.as_mut().poll(context));
            let polled = within_current(&current, || within(&scope, || Failure::catch(&mut poll)));
            polled.unwrap_or_else(|panic| Poll::Ready(Err(FunctionFault::Failed(panic))))
        })
        .await;
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

fn fault(fault: FunctionFault) -> RemoteError {
    match fault {
        FunctionFault::Arguments(failure) => RemoteError::Arguments(failure.into_report()),
        FunctionFault::Failed(failure) => RemoteError::Failed(failure),
    }
}

fn internal(text: &str) -> RemoteError {
    RemoteError::Failed(Failure::Internal(text.to_owned()))
}
