//! The reasons that a call of a remote function gave no value.

use std::sync::Arc;
use std::time::Duration;

use selvedge_cluster::peer::ProcessId;

use crate::current::NoBlocking;
use crate::failure::{Failure, FailureReport};
use crate::process_end::ProcessEnd;
use crate::process_name::ProcessName;
use crate::reference::NamedRef;
use crate::waiting::Unanswered;

/// The reason that a call of a remote function gave no value. [`CallError::Remote`](crate::CallError::Remote) adds the
/// function and the process.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The function returned an error, panicked, or its value could not be sent.
    #[error("failed: {0}")]
    Failed(Failure),
    /// The process died before it answered.
    #[error(
        "the process died {}: {end}",
        match ran { Ran::Never => "before it had the call", Ran::Unknown => "during the call, and the function may have run" }
    )]
    Died {
        /// Whether the function may have run.
        ran: Ran,
        /// How the process ended.
        end: Arc<ProcessEnd>,
    },
    /// No process has this number.
    #[error("no process with this number lives; living are {}", numbers(living))]
    NoSuchProcess {
        /// The living processes.
        living: Vec<ProcessId>,
    },
    /// The call is for a worker of another runtime of this process.
    #[error(
        "{worker} belongs to another runtime (help: call it by the runtime that has started it, or start a worker of this one)"
    )]
    OtherRuntime {
        /// The worker.
        worker: ProcessName,
    },
    /// The call is for a worker that this process has started, which is a worker itself.
    #[error(
        "{worker} was started by this process, which is a worker itself, and runs no functions of the runtime that calls it (help: a \
         runtime that is made here by `Runtime::new()` calls the workers that it starts; those that `Runtime::current()` starts have \
         actors alone)"
    )]
    OfWorker {
        /// The worker.
        worker: ProcessName,
    },
    /// The call names another process than the one where its `#[here]` value lives.
    #[error(
        "the call is for {called}, and its `#[here]` value, {value}, lives in {home} (help: leave `.on(..)` out, and the call goes there; \
         or take the value without `#[here]`, and it is fetched)"
    )]
    Elsewhere {
        /// The reference to the value.
        value: NamedRef,
        /// The process where the value lives.
        home: ProcessName,
        /// The process that the call is for.
        called: ProcessName,
    },
    /// Two `#[here]` values of the call live in two processes, and a function runs in one.
    #[error(
        "two `#[here]` values of the call live in two processes: {first} in {first_home}, and {second} in {second_home} (help: keep both \
         in one process, or take one of them without `#[here]`, and it is fetched)"
    )]
    Apart {
        /// The reference to the first of them.
        first: NamedRef,
        /// The process where it lives.
        first_home: ProcessName,
        /// The reference to another one.
        second: NamedRef,
        /// The process where that one lives.
        second_home: ProcessName,
    },
    /// An option of the call would have no effect with this verb. Nothing was sent.
    #[error(
        "`.{option}(..)` would have no effect in `{verb}`, so nothing was sent (help: leave it out, or use `{instead}`, which has it{})",
        deadline_help(option, verb)
    )]
    OptionWithoutEffect {
        /// The option, a method of [`RemoteCall`](crate::RemoteCall).
        option: &'static str,
        /// The verb that was used.
        verb: &'static str,
        /// The verb that has the option.
        instead: &'static str,
    },
    /// The process has no function with this path and signature.
    #[error(
        "the process does not know this function{}. A crate that is a dependency but never named in code is not linked: \
         write `use that_crate as _;`",
        similar(near)
    )]
    UnknownFunction {
        /// The names of the functions there that are most similar, the most similar one first.
        near: Vec<String>,
    },
    /// The arguments could not be encoded here, or not be decoded there. The function did not run.
    #[error("the arguments cannot be passed: {0}")]
    Arguments(FailureReport),
    /// The arguments, or the result, are longer than a message may be.
    #[error(
        "{bytes} bytes are more than the {limit} that a message may have (help: pass them in several calls)"
    )]
    TooLarge {
        /// The length in bytes.
        bytes: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// Too many bytes wait for the process, which takes them too slowly.
    #[error(
        "{bytes} bytes wait for the process, and {limit} may (help: wait for answers before the next calls)"
    )]
    Backlog {
        /// The number of bytes that wait.
        bytes: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The process lives, and there is no way to it.
    #[error("no link to the process can be made: {0}")]
    NoLink(String),
    /// A `#[worker_init]` function of the process failed, so no function runs there.
    #[error("a `#[worker_init]` function failed there: {0}")]
    WorkerInit(FailureReport),
    /// The deadline of the call has passed; the call is cancelled.
    #[error("no answer within its deadline of {0:?}")]
    Deadline(Duration),
    /// The answer did not arrive while the caller waited. After [`Call::wait`](crate::Call::wait), which takes the call, the call is
    /// cancelled. After [`Call::wait_timeout`](crate::Call::wait_timeout) it goes on as long as its [`Call`](crate::Call) lives, and may be
    /// waited for again.
    #[error(
        "no answer after {0:?} (help: `wait` cancels the call then; `wait_timeout` waits longer, and the call goes on while its `Call` is \
         kept)"
    )]
    Timeout(Duration),
    /// The call of the function that waited was cancelled, or its deadline has passed.
    #[error("the call that waited for it was cancelled: end the function")]
    Cancelled,
    /// A remote function waited, and so many others of its process wait already that the wait is refused.
    #[error("{limit} functions of this process wait already (help: write `async fn` and `.await`)")]
    TooManyBlocked {
        /// The number of functions of a process that may wait at a time.
        limit: usize,
    },
    /// An async remote function waited by blocking, which would stop all other async functions of its process.
    #[error("an async remote function cannot block (help: write `.await` in place of `.wait()`)")]
    WouldBlock,
    /// Too many calls wait for a thread of the process.
    #[error("{limit} calls wait there already")]
    Overloaded {
        /// The number of calls that may wait in a process.
        limit: usize,
    },
    /// The system refused a thread for the function.
    #[error("the process cannot start a thread: {0}")]
    NoThread(String),
    /// The process is only a head, which runs no function.
    #[error(
        "the process is only a head and runs no function (help: a call that names no process goes there while no worker has joined: start \
         one, or `submit` the call, which waits for one)"
    )]
    OnlyHead,
    /// The answer has been taken already.
    #[error("the answer has been taken already")]
    Taken,
    /// The runtime was shut down.
    #[error("the runtime was shut down")]
    Shutdown,
}

selvedge_channels::debug_is_report!(RemoteError);

impl From<Unanswered> for RemoteError {
    fn from(reason: Unanswered) -> Self {
        match reason {
            Unanswered::Cancelled => RemoteError::Cancelled,
            Unanswered::TimedOut { waited } => RemoteError::Timeout(waited),
            Unanswered::Refused(NoBlocking::Async) => RemoteError::WouldBlock,
            Unanswered::Refused(NoBlocking::TooMany { limit }) => RemoteError::TooManyBlocked { limit },
        }
    }
}

/// Whether the function of a call without an answer has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ran {
    /// The process never got the call.
    Never,
    /// The process may have got the call.
    Unknown,
}

/// The other way to limit the wait for a value that is submitted or kept.
fn deadline_help(option: &str, verb: &str) -> &'static str {
    match (option, verb) {
        ("deadline", "Runtime::submit" | "Runtime::keep") => {
            "; `fetch_timeout` limits the wait for the value"
        }
        _ => "",
    }
}

fn numbers(processes: &[ProcessId]) -> String {
    let numbers = processes.iter().map(|process| process.number().to_string());
    numbers.collect::<Vec<_>>().join(", ")
}

fn similar(near: &[String]) -> String {
    if near.is_empty() {
        return String::new();
    }
    format!("; similar ones there: {}", near.join(", "))
}
