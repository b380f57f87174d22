//! The report of a failed task: made where the method ran, carried as the bytes of a fault, read where the
//! result is fetched.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use selvedge_channels::error::layouts;
use selvedge_channels::{ChannelError, Fault, TensorLayout};
use selvedge_core::{Failure, FailureKind, panic_message};
use serde::{Deserialize, Serialize};

use crate::ir::SourceLocation;

/// Why a task yielded no value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Cause {
    /// The method returned an error: its type, its text and the texts of its sources, outermost first.
    Error {
        /// Name of the error's type.
        type_name: String,
        /// The error's own text.
        message: String,
        /// Texts of the source chain.
        sources: Vec<String>,
    },
    /// The method panicked.
    Panic {
        /// The panic's message.
        message: String,
    },
    /// The value could not travel: too large for the channel, or refused by its own `Serialize`.
    Payload {
        /// What the channel said.
        message: String,
    },
    /// An argument of the method has come and cannot be read: its `Deserialize` refuses it, for example.
    Argument {
        /// What its channel said.
        message: String,
    },
    /// A tensor in the value lies on another device than was declared.
    Elsewhere {
        /// The value.
        edge: String,
        /// The device that was declared, as the writer's process counts devices.
        expected: u32,
        /// The device it is on.
        found: u32,
    },
    /// The value has other tensors than the first, and it was agreed that they look alike.
    StaticShape {
        /// The value.
        edge: String,
        /// The first value's tensors.
        expected: Vec<TensorLayout>,
        /// This value's.
        found: Vec<TensorLayout>,
    },
    /// The actor was in use: by its own method, or by an ordinary call for too long.
    Busy {
        /// By whom.
        message: String,
    },
    /// An async method of an inline actor awaited for [`Options::timeout`](crate::Options::timeout), and was dropped there.
    TimedOut {
        /// For how long.
        message: String,
    },
    /// A broken invariant of selvedge itself.
    Internal {
        /// What to report.
        message: String,
    },
}

impl Cause {
    /// The panic of a value's own code. What its payload does when it is dropped is its own affair.
    pub(crate) fn of_panic(payload: Box<dyn Any + Send>) -> Self {
        Cause::Panic {
            message: panic_message(payload),
        }
    }

    /// Why a value was refused by its channel.
    pub(crate) fn of_refusal(error: ChannelError) -> Cause {
        match error {
            ChannelError::Elsewhere {
                edge,
                expected,
                found,
            } => Cause::Elsewhere {
                edge,
                expected,
                found,
            },
            ChannelError::StaticShape {
                edge,
                expected,
                found,
            } => Cause::StaticShape {
                edge,
                expected,
                found,
            },
            error => Cause::Payload {
                message: error.to_string(),
            },
        }
    }
}

/// Everything about a task that does not change between executions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskInfo {
    /// The task's label, for example `shard0.forward`.
    pub task: String,
    /// The actor's name.
    pub actor: String,
    /// Where the actor lives: `inline`, `thread`, or `process 4121`.
    pub placement: String,
    /// The line of the user's program where the task was bound.
    pub bound_at: SourceLocation,
}

#[derive(Serialize, Deserialize)]
struct Report {
    info: TaskInfo,
    execution: u64,
    cause: Cause,
}

/// A failure of the user's code in one execution. The graph goes on with the next.
#[derive(Clone)]
pub struct TaskError(Arc<Failed>);

/// Apart, so that a result is no larger for what it hardly ever holds.
struct Failed {
    info: TaskInfo,
    execution: u64,
    cause: Cause,
    original: Option<Arc<dyn Error + Send + Sync>>,
}

impl TaskError {
    /// The task, its actor, placement and the line where it was bound.
    pub fn info(&self) -> &TaskInfo {
        &self.0.info
    }

    /// Number of the execution that failed.
    pub fn execution(&self) -> u64 {
        self.0.execution
    }

    /// What went wrong.
    pub fn cause(&self) -> &Cause {
        &self.0.cause
    }

    /// Whether the method panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self.0.cause, Cause::Panic { .. })
    }

    /// The user's own error value. It is kept where the method ran in this process; from a worker process only
    /// [`Cause::Error`] arrives (type name and texts), and this is `None`.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.0
            .original
            .as_deref()
            .and_then(|error| error.downcast_ref::<E>())
    }

    /// Reads a fault that `report` made.
    pub(crate) fn from_fault(fault: &Fault) -> Option<TaskError> {
        let report: Report = postcard::from_bytes(fault.report()).ok()?;
        Some(TaskError(Arc::new(Failed {
            info: report.info,
            execution: report.execution,
            cause: report.cause,
            original: fault.original().cloned(),
        })))
    }
}

selvedge_channels::debug_is_report!(TaskError);

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Error { message, sources, .. } => {
                f.write_str(message)?;
                sources
                    .iter()
                    .try_for_each(|source| write!(f, "\n  caused by: {source}"))
            }
            Cause::Panic { message } => write!(f, "panicked: {message}"),
            Cause::Payload { message } => write!(f, "its result cannot travel: {message}"),
            Cause::Argument { message } => write!(f, "an argument of it cannot be read: {message}"),
            Cause::Elsewhere {
                edge,
                expected,
                found,
            } => {
                write!(
                    f,
                    "a tensor of `{edge}` is on device {found}, and its device is {expected}"
                )
            }
            Cause::StaticShape {
                edge,
                expected,
                found,
            } => {
                let (expected, found) = (layouts(expected), layouts(found));
                write!(
                    f,
                    "the shapes of `{edge}` are fixed by its first value: expected {expected}, found {found}"
                )
            }
            Cause::Busy { message } | Cause::TimedOut { message } => f.write_str(message),
            Cause::Internal { message } => write!(f, "internal error of selvedge, please report: {message}"),
        }
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TaskInfo {
            task,
            actor,
            placement,
            bound_at,
        } = &self.0.info;
        write!(
            f,
            "`{task}` (actor `{actor}`, {placement}) failed in execution {}: {}",
            self.0.execution, self.0.cause
        )?;
        write!(f, "\n  --> bound at {bound_at}")
    }
}

impl Error for TaskError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0
            .original
            .as_deref()
            .map(|error| error as &(dyn Error + 'static))
    }
}

/// Turns a method's failure into the fault that travels on.
pub(crate) fn fault_of(info: &TaskInfo, execution: u64, failure: Failure) -> Fault {
    if let Failure::Interrupted = failure {
        return Fault::cancelled();
    }
    let report = failure.report();
    let message = report.message;
    let cause = match report.kind {
        FailureKind::Error => Cause::Error {
            type_name: report.type_name,
            message,
            sources: report.sources,
        },
        FailureKind::Panic => Cause::Panic { message },
        FailureKind::Channel => Cause::Argument { message },
        FailureKind::Busy => Cause::Busy { message },
        FailureKind::TimedOut => Cause::TimedOut { message },
        FailureKind::Internal => Cause::Internal { message },
    };
    let original = match failure {
        Failure::Error { error, .. } => Some(error),
        _ => None,
    };
    fault_with(info, execution, cause, original)
}

/// A fault with a cause found outside the method.
pub(crate) fn fault_with(
    info: &TaskInfo,
    execution: u64,
    cause: Cause,
    original: Option<Arc<dyn Error + Send + Sync>>,
) -> Fault {
    let report = Report {
        info: info.clone(),
        execution,
        cause,
    };
    Fault::failed(postcard::to_allocvec(&report).unwrap_or_default(), original)
}
