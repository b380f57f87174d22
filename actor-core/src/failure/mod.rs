//! Failures: the reasons that a method gave no value, and their form for other processes.
//!
//! - `report.rs`: a failure as plain data, which travels;
//! - `reading.rs`: reports of other processes, which are cut while they are read;
//! - `place.rs`: the functions whose values were not made because of a failure;
//! - `text.rs`: the texts of errors;
//! - `wake.rs`: wakers, whose panics are caught.

mod place;
mod reading;
mod report;
mod text;
mod wake;

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use selvedge_channels::{ChannelError, dispose};

pub use self::place::FunctionPlace;
use self::place::{keep_first_to_fail, write_functions};
pub use self::report::{FailureKind, FailureReport};
pub(crate) use self::text::WithSources;
pub use self::text::panic_message;
use self::text::{sources, text};
pub(crate) use self::wake::Waking;
pub use self::wake::wake;
use crate::BoxError;
use crate::error_codec::{ErrorCodec, SharedError};

/// The reason that a method gave no value.
#[derive(Clone)]
#[non_exhaustive]
pub enum Failure {
    /// The method returned an error.
    #[non_exhaustive]
    Error {
        /// The name of the error's type, for display.
        type_name: &'static str,
        /// The error itself.
        error: SharedError,
        /// The codec of the error's type, if serde knows the type.
        #[doc(hidden)]
        codec: Option<&'static ErrorCodec>,
        /// The user's own error, if the error is made of it.
        #[doc(hidden)]
        original: Option<SharedError>,
    },
    /// The method panicked.
    Panic {
        /// The panic's message.
        message: String,
    },
    /// An argument could not be read, or a result could not be staged.
    Channel(Arc<ChannelError>),
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

selvedge_channels::debug_is_report!(Failure);

impl Failure {
    /// Creates the failure for an error value of a user-defined type `E`.
    pub fn from_error<E: Into<BoxError>>(error: E) -> Self {
        Failure::made_of(error, None)
    }

    /// Creates the failure for an error of selvedge that is made of a user's own one.
    #[doc(hidden)] // for the crates of selvedge
    pub fn made_of<E: Into<BoxError>>(error: E, original: Option<SharedError>) -> Self {
        Failure::Error {
            type_name: std::any::type_name::<E>(),
            error: Arc::from(error.into()),
            codec: None,
            original,
        }
    }

    /// The failure for an error of the codec's type.
    pub(crate) fn encodable(error: SharedError, codec: &'static ErrorCodec) -> Self {
        Failure::Error {
            type_name: codec.type_name(),
            error,
            codec: Some(codec),
            original: None,
        }
    }

    /// The failure of an error of a channel, or of its encoding.
    pub(crate) fn of_channel(error: impl Into<ChannelError>) -> Self {
        Failure::from(error.into())
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

    /// The user's own error, if the method, or the function that was to make its value, returned one of type `E`, or one with such a
    /// source.
    #[must_use]
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        match self {
            Failure::Error { error, original, .. } => {
                let chains = std::iter::once(error).chain(original);
                chains.into_iter().find_map(|error| {
                    let first: &(dyn Error + 'static) = error.as_ref();
                    std::iter::successors(Some(first), |error| Error::source(*error))
                        .find_map(|error| error.downcast_ref())
                })
            }
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
                ..
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
                    sources: sources(error.as_ref(), &message),
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
        Failure::Channel(Arc::new(error))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Error { error, .. } => WithSources(error.as_ref()).fmt(f),
            Failure::Panic { message } => write!(f, "panicked: {message}"),
            Failure::Channel(error) => WithSources(error.as_ref()).fmt(f),
            Failure::Busy(text) => f.write_str(text),
            Failure::Interrupted => f.write_str(
                "dropped where it awaited: nobody wants its result any more, or its worker was interrupted",
            ),
            Failure::TimedOut(limit) => write!(f, "dropped where it awaited, after {limit:?}"),
            Failure::Unmade { functions, failure } => {
                write_functions(functions, f)?;
                write!(f, "{failure}")
            }
            Failure::Internal(text) => write!(f, "bug in selvedge, please report: {text}"),
        }
    }
}

impl Error for Failure {}

#[cfg(test)]
mod tests {
    use selvedge_cluster::peer::ProcessId;

    use super::*;
    use crate::process_name::ProcessName;

    #[derive(Debug, thiserror::Error)]
    #[error("the outer: {0}")]
    struct Outer(#[source] std::io::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("loading")]
    struct Silent(#[source] Outer);

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
        let place = |path: &str, number| FunctionPlace {
            path: path.to_owned(),
            process: Some(ProcessName::of_number(ProcessId::new(number).unwrap())),
        };
        let failure = Failure::from_error(Outer(std::io::Error::other("disk on fire")));
        let failure = failure.unmade(place("load", 2)).unmade(place("sum", 3));
        let text = "`sum` on process 3 failed: `load` on process 2 failed: the outer: disk on fire";
        assert_eq!(failure.to_string(), text);
        assert_eq!(format!("{failure:?}"), text);
        assert!(failure.downcast_ref::<Outer>().is_some());
        assert!(failure.downcast_ref::<std::io::Error>().is_some(), "its source");
        let report = failure.report();
        assert_eq!(report.to_string(), text);
        assert_eq!(Failure::from_error(report.clone()).report(), report);
    }

    #[test]
    fn a_failure_says_the_sources_of_its_error_once() {
        let outer = || Outer(std::io::Error::other("disk on fire"));
        assert_eq!(
            Failure::from_error(Silent(outer())).to_string(),
            "loading: the outer: disk on fire"
        );
        let failure = Failure::from_error(outer());
        assert_eq!(failure.to_string(), "the outer: disk on fire");
        assert!(Error::source(&failure).is_none(), "its text says all");
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
