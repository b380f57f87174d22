//! The report of a failed task: made where the method ran, carried as the bytes of a fault, and read where the result
//! is fetched.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use selvedge_channels::error::layouts;
use selvedge_channels::{ChannelError, Fault, TensorLayout};
use selvedge_core::{Failure, FailureKind, SharedError, decode_error, panic_message};
use serde::{Deserialize, Serialize};

use crate::ir::SourceLocation;

/// The reason why a task yielded no value.
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
    /// The value could not be sent: it is too large for the channel, or its own `Serialize` refused it.
    Payload {
        /// The error of the channel.
        message: String,
    },
    /// An argument of the method has arrived and cannot be read: its `Deserialize` refuses it, for example.
    Argument {
        /// The error of its channel.
        message: String,
    },
    /// A tensor in the value lies on another device than the declared one.
    WrongDevice {
        /// The name of the value.
        edge: String,
        /// The declared device, in the device numbering of the writer's process.
        expected: u32,
        /// The device that the tensor is on.
        found: u32,
    },
    /// The value has other tensors than the first value, although all were agreed to look alike.
    StaticShape {
        /// The name of the value.
        edge: String,
        /// The tensors of the first value.
        expected: Vec<TensorLayout>,
        /// The tensors of this value.
        found: Vec<TensorLayout>,
    },
    /// The actor was in use: by its own method, or by an ordinary call for too long.
    Busy {
        /// The use that kept the actor busy.
        message: String,
    },
    /// An async method of an inline actor awaited for [`Options::timeout`](crate::Options::timeout), and was then
    /// dropped.
    TimedOut {
        /// The time that the method awaited, in words.
        message: String,
    },
    /// A broken invariant of selvedge itself.
    Internal {
        /// The text to report.
        message: String,
    },
}

impl Cause {
    /// The cause for a panic in a value's own code. A second panic, while the payload is dropped, is ignored.
    pub(crate) fn of_panic(payload: Box<dyn Any + Send>) -> Self {
        Cause::Panic {
            message: panic_message(payload),
        }
    }

    /// The cause for a channel's refusal of a value.
    pub(crate) fn of_refusal(error: ChannelError) -> Cause {
        match error {
            ChannelError::WrongDevice {
                edge,
                expected,
                found,
            } => Cause::WrongDevice {
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

/// The properties of a task that do not change between executions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskInfo {
    /// The task's label, for example `shard0.forward`.
    pub task: String,
    /// The actor's name.
    pub actor: String,
    /// The placement of the actor: `inline`, `thread`, or `process with pid 4121`.
    pub placement: String,
    /// The line in the user's program where the task was bound.
    pub bound_at: SourceLocation,
}

#[derive(Serialize, Deserialize)]
struct Report {
    info: TaskInfo,
    execution: u64,
    cause: Cause,
    /// The user's own error, encoded, if serde knows its type.
    encoded: Option<Vec<u8>>,
}

/// A failure of user code in one execution. The graph goes on with the next.
#[derive(Clone)]
pub struct TaskError(Arc<Failed>);

/// The content of a [`TaskError`], kept apart so that a result is no larger for an error that it hardly ever contains.
struct Failed {
    info: TaskInfo,
    execution: u64,
    cause: Cause,
    original: Option<SharedError>,
}

impl TaskError {
    /// The task, its actor, placement and the line where it was bound.
    pub fn info(&self) -> &TaskInfo {
        &self.0.info
    }

    /// The number of the execution that failed.
    pub fn execution(&self) -> u64 {
        self.0.execution
    }

    /// The cause of the failure.
    pub fn cause(&self) -> &Cause {
        &self.0.cause
    }

    /// The user's own error, if it has arrived.
    pub(crate) fn original(&self) -> Option<&SharedError> {
        self.0.original.as_ref()
    }

    /// Whether the method panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self.0.cause, Cause::Panic { .. })
    }

    /// The user's own error, if the method returned one of type `E`, and ran in this process or serde knows `E`
    /// (`#[derive(Serialize, Deserialize)]`). Of any other error of a worker process only [`Cause::Error`] arrives: its
    /// type's name and its texts.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.0
            .original
            .as_deref()
            .and_then(|error| error.downcast_ref::<E>())
    }

    /// Reads a fault that [`fault_with`] made.
    pub(crate) fn from_fault(fault: &Fault) -> Option<TaskError> {
        let report: Report = postcard::from_bytes(fault.report()).ok()?;
        let original = fault.original().cloned().or_else(|| report.original());
        Some(TaskError(Arc::new(Failed {
            info: report.info,
            execution: report.execution,
            cause: report.cause,
            original,
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
            Cause::WrongDevice {
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

impl Error for TaskError {}

/// Converts a method's failure to the fault that is sent on.
pub(crate) fn fault_of(info: &TaskInfo, execution: u64, failure: Failure) -> Fault {
    if let Failure::Interrupted = failure {
        return Fault::cancelled();
    }
    let report = failure.report();
    let (message, encoded) = (report.message, report.encoded.map(Into::into));
    let cause = match report.kind {
        FailureKind::Error => Cause::Error {
            type_name: report.type_name,
            message,
            sources: report.sources.into(),
        },
        FailureKind::Panic => Cause::Panic { message },
        FailureKind::Channel => Cause::Argument { message },
        FailureKind::Busy => Cause::Busy { message },
        FailureKind::TimedOut => Cause::TimedOut { message },
        _ => Cause::Internal { message },
    };
    let original = match failure {
        Failure::Error { error, .. } => Some(error),
        _ => None,
    };
    let report = Report {
        encoded,
        ..Report::new(info, execution, cause)
    };
    report.into_fault(original)
}

/// Makes a fault from a cause.
pub(crate) fn fault_with(info: &TaskInfo, execution: u64, cause: Cause) -> Fault {
    Report::new(info, execution, cause).into_fault(None)
}

impl Report {
    fn new(info: &TaskInfo, execution: u64, cause: Cause) -> Self {
        Report {
            info: info.clone(),
            execution,
            cause,
            encoded: None,
        }
    }

    /// The user's own error, if the report contains it.
    fn original(&self) -> Option<SharedError> {
        let Cause::Error { type_name, .. } = &self.cause else {
            return None;
        };
        decode_error(type_name, self.encoded.as_deref()?).map(|(_, error)| error)
    }

    fn into_fault(self, original: Option<SharedError>) -> Fault {
        Fault::failed(postcard::to_allocvec(&self).unwrap_or_default(), original)
    }
}
