//! Failures: the reasons that a method gave no value, and their form for other processes.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use selvedge_channels::{ChannelError, dispose};
use selvedge_cluster::peer::ProcessId;
use serde::{Deserialize, Serialize};

use crate::BoxError;
use crate::error_codec::{ErrorCodec, SharedError};

/// The reason that a method gave no value.
pub enum Failure {
    /// The method returned an error.
    Error {
        /// The name of the error's type, for display.
        type_name: &'static str,
        /// The error itself.
        error: SharedError,
        /// The codec of the error's type, if serde knows the type.
        codec: Option<&'static ErrorCodec>,
    },
    /// The method panicked.
    Panic {
        /// The panic's message.
        message: String,
    },
    /// An argument could not be read, or a result could not be staged.
    Channel(ChannelError),
    /// The actor is in use by the calling thread itself, or was in use by another thread for too long.
    Busy(String),
    /// The method was dropped at an await point, because its result is no longer wanted.
    Interrupted,
    /// The method was dropped at an await point after this time; it ran on the thread that waits for it.
    TimedOut(Duration),
    /// The function that was to make a value failed.
    Unmade {
        /// The function, behind those that needed its value and have failed in consequence, the last one first.
        functions: Vec<FunctionPlace>,
        /// The failure of the function.
        failure: Box<Failure>,
    },
    /// A bug in selvedge; please report it with this text.
    Internal(String),
}

/// A remote function, and the process in which it ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionPlace {
    /// The function's path.
    pub path: String,
    /// The process.
    pub process: ProcessId,
}

impl fmt::Display for FunctionPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` on {}", self.path, self.process)
    }
}

selvedge_channels::debug_is_report!(Failure);

impl Failure {
    /// Creates the failure for an error value of a user-defined type `E`.
    pub fn from_error<E: Into<BoxError>>(error: E) -> Self {
        Failure::Error {
            type_name: std::any::type_name::<E>(),
            error: Arc::from(error.into()),
            codec: None,
        }
    }

    /// The failure of a value whose function failed.
    pub(crate) fn unmade(self, function: FunctionPlace) -> Self {
        let (mut functions, failure) = match self {
            Failure::Unmade { functions, failure } => (functions, failure),
            failure => (Vec::new(), Box::new(failure)),
        };
        functions.insert(0, function);
        keep_first_to_fail(&mut functions);
        Failure::Unmade { functions, failure }
    }

    /// Whether the method panicked, in this process or another.
    pub(crate) fn is_panic(&self) -> bool {
        match self {
            Failure::Panic { .. } => true,
            Failure::Error { error, .. } => {
                let report = error.downcast_ref::<FailureReport>();
                report.is_some_and(|report| report.kind == FailureKind::Panic)
            }
            Failure::Unmade { failure, .. } => failure.is_panic(),
            _ => false,
        }
    }

    /// The user's own error, if the method, or the function that was to make its value, returned one of type `E`.
    #[must_use]
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        match self {
            Failure::Error { error, .. } => error.downcast_ref(),
            Failure::Unmade { failure, .. } => failure.downcast_ref(),
            _ => None,
        }
    }

    /// Runs user code; a panic in it becomes a failure.
    ///
    /// # Errors
    /// The failure of `work`, or its panic.
    pub fn catch<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        // Unwind safe: nothing that `work` was given is used again after a panic.
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| Err(Failure::panic(payload)))
    }

    /// Converts the failure into plain data and drops the error itself. Panics of that drop are caught.
    pub(crate) fn into_report(self) -> FailureReport {
        let report = self.report();
        dispose(self);
        report
    }

    pub(crate) fn panic(payload: Box<dyn Any + Send>) -> Self {
        Failure::Panic {
            message: panic_message(payload),
        }
    }

    /// The failure as plain data that can travel.
    #[must_use]
    pub fn report(&self) -> FailureReport {
        match self {
            Failure::Error {
                type_name,
                error,
                codec,
            } => {
                if let Some(remote) = error.downcast_ref::<FailureReport>() {
                    return remote.clone();
                }
                let message = text(error.as_ref());
                FailureReport {
                    type_name: (*type_name).to_owned(),
                    sources: sources(error.as_ref(), &message),
                    encoded: codec.and_then(|codec| codec.encode(error)).map(Vec::into),
                    ..FailureReport::new(FailureKind::Error, message)
                }
            }
            Failure::Panic { message } => FailureReport::new(FailureKind::Panic, message.clone()),
            Failure::Channel(error) => {
                let message = error.to_string();
                FailureReport {
                    sources: sources(error, &message),
                    ..FailureReport::new(FailureKind::Channel, message)
                }
            }
            Failure::Busy(text) => FailureReport::new(FailureKind::Busy, text.clone()),
            Failure::Interrupted => FailureReport::new(FailureKind::Busy, self.to_string()),
            Failure::TimedOut(_) => FailureReport::new(FailureKind::TimedOut, self.to_string()),
            Failure::Unmade { functions, failure } => {
                let report = failure.report();
                let mut functions = functions.clone();
                functions.extend(report.functions);
                keep_first_to_fail(&mut functions);
                FailureReport {
                    functions: functions.into(),
                    ..report
                }
            }
            Failure::Internal(text) => FailureReport::new(FailureKind::Internal, text.clone()),
        }
    }
}

impl From<ChannelError> for Failure {
    fn from(error: ChannelError) -> Self {
        Failure::Channel(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Error { error, .. } => write!(f, "{error}"),
            Failure::Panic { message } => write!(f, "panicked: {message}"),
            Failure::Channel(error) => write!(f, "{error}"),
            Failure::Busy(text) => f.write_str(text),
            Failure::Interrupted => f.write_str("dropped where it awaited: nobody wants its result any more"),
            Failure::TimedOut(limit) => write!(f, "dropped where it awaited, after {limit:?}"),
            Failure::Unmade { functions, failure } => {
                write_functions(functions, f)?;
                write!(f, "{failure}")
            }
            Failure::Internal(text) => write!(f, "bug in selvedge, please report: {text}"),
        }
    }
}

fn write_functions(functions: &[FunctionPlace], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    functions
        .iter()
        .try_for_each(|function| write!(f, "{function} failed: "))
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Failure::Error { error, .. } => error.source(),
            Failure::Channel(error) => error.source(),
            Failure::Unmade { failure, .. } => failure.source(),
            Failure::Panic { .. }
            | Failure::Busy(_)
            | Failure::Interrupted
            | Failure::TimedOut(_)
            | Failure::Internal(_) => None,
        }
    }
}

/// The kind of a [`Failure`], as plain data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    /// The user's method returned an error.
    Error,
    /// The user's method panicked.
    Panic,
    /// A channel failed when an argument was read or a result was staged.
    Channel,
    /// The actor was in use, or the method was dropped because its result was no longer wanted.
    Busy,
    /// The method awaited for too long on the thread that waits for it.
    TimedOut,
    /// A bug in selvedge.
    Internal,
}

/// A [`Failure`] as plain data, the form in which an error travels between processes. It is itself an error, with the
/// text of the original and those texts of its sources that the original does not contain.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureReport {
    /// The kind of failure.
    pub kind: FailureKind,
    /// The name of the error's type, for [`FailureKind::Error`]; empty for other kinds.
    pub type_name: String,
    /// The error's text.
    pub message: String,
    /// The texts of the error's sources that the texts before do not contain, nearest first.
    pub sources: Box<[String]>,
    /// The functions whose values were not made because of it, the last one first.
    pub functions: Box<[FunctionPlace]>,
    /// The error itself, encoded, if serde knows its type.
    pub encoded: Option<Box<[u8]>>,
}

selvedge_channels::debug_is_report!(FailureReport);

impl FailureReport {
    fn new(kind: FailureKind, message: String) -> Self {
        Self {
            kind,
            type_name: String::new(),
            message: cut(message),
            sources: Box::default(),
            functions: Box::default(),
            encoded: None,
        }
    }
}

impl fmt::Display for FailureReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_functions(&self.functions, f)?;
        match self.kind {
            FailureKind::Panic => write!(f, "panicked: {}", self.message)?,
            FailureKind::Internal => write!(f, "bug in selvedge, please report: {}", self.message)?,
            FailureKind::Error | FailureKind::Channel | FailureKind::Busy | FailureKind::TimedOut => {
                f.write_str(&self.message)?
            }
        }
        for source in &self.sources {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl Error for FailureReport {}

/// The maximum number of functions that a failure names.
const FUNCTIONS_MAX: usize = 16;

/// Leaves those of the functions that have failed first, which are the last ones.
fn keep_first_to_fail(functions: &mut Vec<FunctionPlace>) {
    let surplus = functions.len().saturating_sub(FUNCTIONS_MAX);
    drop(functions.drain(..surplus));
}

/// The maximum number of sources in a report: a cyclic `source` must not hang the thread that reports.
const SOURCES_MAX: usize = 16;

/// The texts of an error's sources that `said` and the texts before do not contain.
fn sources(error: &(dyn Error + 'static), said: &str) -> Box<[String]> {
    let mut texts: Vec<String> = Vec::new();
    let mut next = error.source();
    for _ in 0..SOURCES_MAX {
        let Some(source) = next else { break };
        let text = text(source);
        if !said.contains(&text) && !texts.iter().any(|before| before.contains(&text)) {
            texts.push(text);
        }
        next = source.source();
    }
    texts.into()
}

/// Returns the message of an error. `Display` is user code, so a panic in it is caught.
fn text(error: &(dyn Error + 'static)) -> String {
    let said = catch_unwind(AssertUnwindSafe(|| error.to_string()));
    cut(said.unwrap_or_else(|_| "an error whose Display panicked".to_owned()))
}

/// The maximum length of a text in a report; a longer text is cut.
const TEXT_BYTES_MAX: usize = 16 * 1024;

fn cut(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.push('…');
    }
    text
}

/// Wakes a waker. Wakers are user code, so panics are caught.
pub fn wake(waker: Waker) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
        dispose(payload);
    }
}

/// A waker that is woken by the drop, wherever that happens: no waiter sleeps for ever.
pub(crate) struct Waking(Option<Waker>);

impl Waking {
    pub(crate) fn new(waker: Waker) -> Self {
        Waking(Some(waker))
    }
}

impl Drop for Waking {
    fn drop(&mut self) {
        if let Some(waker) = self.0.take() {
            wake(waker);
        }
    }
}

/// Returns the text of a panic's payload and drops the payload. Panics of that drop are caught.
#[must_use]
pub fn panic_message(payload: Box<dyn Any + Send>) -> String {
    let message = if let Some(text) = payload.downcast_ref::<&'static str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic whose payload is not text".to_owned()
    };
    dispose(payload);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_keeps_the_text_and_the_sources() {
        let inner = std::io::Error::other("disk on fire");
        let failure = Failure::from_error(std::io::Error::other(inner));
        let report = failure.report();
        assert_eq!(report.kind, FailureKind::Error);
        assert!(report.type_name.contains("Error"));
        assert!(report.to_string().contains("disk on fire"));
    }

    #[test]
    fn a_report_tells_each_source_and_each_function_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("the outer: {0}")]
        struct Outer(#[source] std::io::Error);

        let place = |path: &str, number| FunctionPlace {
            path: path.to_owned(),
            process: ProcessId::new(number).unwrap(),
        };
        let failure = Failure::from_error(Outer(std::io::Error::other("disk on fire")));
        let failure = failure.unmade(place("load", 2)).unmade(place("sum", 3));
        let text = "`sum` on process 3 failed: `load` on process 2 failed: the outer: disk on fire";
        assert_eq!(failure.to_string(), text);
        assert_eq!(format!("{failure:?}"), text);
        assert!(failure.downcast_ref::<Outer>().is_some());
        let report = failure.report();
        assert_eq!(report.to_string(), text);
        assert_eq!(Failure::from_error(report.clone()).report(), report);
    }

    #[test]
    fn a_report_of_a_report_is_the_report() {
        let report = Failure::Panic {
            message: "boom".into(),
        }
        .report();
        assert_eq!(Failure::from_error(report.clone()).report(), report);
    }
}
