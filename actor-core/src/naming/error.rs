//! The reasons that a name was not given, found or taken away.

use std::fmt;
use std::time::Duration;

use selvedge_objects::names::NameRefusal;
use selvedge_objects::refs::RefError;

use crate::current::NoBlocking;
use crate::process_name::{NameBook, ProcessName};
use crate::remote::near::near;
use crate::short_name::short;
use crate::waiting::Unanswered;

/// The reason that a name was not given to a reference, found or taken away.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The name is empty.
    #[error("a reference cannot have an empty name")]
    Empty,
    /// The name, or that of the type of the value, is too long.
    #[error("a name of {bytes} bytes, and {limit} are allowed: choose a shorter one")]
    TooLong {
        /// The length, in bytes.
        bytes: usize,
        /// The length that is allowed.
        limit: usize,
    },
    /// Another reference has the name, or is about to have it.
    #[error("`{name}` is taken: {by} has given this name to a reference (help: `unname` takes it away)")]
    Taken {
        /// The name.
        name: String,
        /// The process that has given it.
        by: ProcessName,
    },
    /// No reference has the name.
    #[error("no reference has the name `{name}`{}", Similar(near))]
    Unknown {
        /// The name.
        name: String,
        /// Similar names that there are, the most similar one first.
        near: Vec<String>,
    },
    /// The value has another type.
    #[error("`{name}` is a `Ref<{}>`, and no `Ref<{}>`", short(type_name), short(wanted))]
    WrongType {
        /// The name.
        name: String,
        /// The full name of the type of the value.
        type_name: String,
        /// The full name of the type that was asked for.
        wanted: &'static str,
    },
    /// The process where the value lived is dead, and the value is lost. The name can be given again.
    #[error("`{name}` is lost: {owner}, where its value lived, is dead")]
    OwnerDead {
        /// The name.
        name: String,
        /// The process.
        owner: ProcessName,
    },
    /// The process where the value lives has not held it for the name.
    #[error("`{name}` is not held by the process where its value lives: {why}")]
    Unheld {
        /// The name.
        name: String,
        /// The reason.
        why: String,
    },
    /// The reference cannot be named.
    #[error("the reference cannot have a name: {0}")]
    Reference(RefError),
    /// The runtime has too many names.
    #[error("the runtime has {limit} names already: take some away")]
    TooMany {
        /// The number that is allowed.
        limit: usize,
    },
    /// The process that has the names, the one that made the runtime, is dead. A name that was about to be given or taken away may be
    /// so or not.
    #[error("the process that has the names of the runtime is dead")]
    NoHead,
    /// A process that was to be asked cannot be reached.
    #[error("{process} cannot be asked about a name: {reason}")]
    Unreachable {
        /// The process.
        process: ProcessName,
        /// The reason.
        reason: String,
    },
    /// The answer has not come in time. A name that was about to be given or taken away may be so or not.
    #[error("no answer about a name in {waited:?}")]
    Timeout {
        /// The time that the wait lasted.
        waited: Duration,
    },
    /// The call of the function that waited was cancelled, or its deadline has passed.
    #[error("the call that waited for an answer about a name was cancelled: end the function")]
    Cancelled,
    /// An async remote function waited by blocking, which would stop all other async functions of its process.
    #[error(
        "an async remote function cannot wait for an answer about a name (help: pass it the reference, or find that in a \
         function that is not async)"
    )]
    WouldBlock,
    /// The wait is refused, because many remote functions of this process wait already.
    #[error("no answer about a name is waited for: {limit} functions of this process wait already")]
    TooManyBlocked {
        /// The number of functions of a process that may wait at a time.
        limit: usize,
    },
    /// The runtime was shut down.
    #[error("no names are left: the runtime was shut down")]
    Shutdown,
}

selvedge_channels::debug_is_report!(NameError);

/// Similar names, at the end of an error.
struct Similar<'a>(&'a [String]);

impl fmt::Display for Similar<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, name) in self.0.iter().enumerate() {
            let before = if at == 0 { "; similar names: " } else { ", " };
            write!(f, "{before}`{name}`")?;
        }
        Ok(())
    }
}

impl NameError {
    /// The error of a refusal.
    pub(super) fn of(refusal: NameRefusal, name: &str, book: &NameBook) -> Self {
        let name = name.to_owned();
        match refusal {
            NameRefusal::Empty => NameError::Empty,
            NameRefusal::TooLong { bytes, limit } => NameError::TooLong { bytes, limit },
            NameRefusal::Taken { by } => NameError::Taken {
                name,
                by: book.name(by.process),
            },
            NameRefusal::Unknown { beside } => NameError::Unknown {
                near: near(&name, beside),
                name,
            },
            NameRefusal::OwnerDead(owner) => NameError::OwnerDead {
                name,
                owner: book.name(owner.process),
            },
            NameRefusal::Unheld { why } => NameError::Unheld { name, why },
            NameRefusal::TooMany { limit } => NameError::TooMany { limit },
        }
    }
}

impl From<Unanswered> for NameError {
    fn from(reason: Unanswered) -> Self {
        match reason {
            Unanswered::Cancelled => NameError::Cancelled,
            Unanswered::TimedOut { waited } => NameError::Timeout { waited },
            Unanswered::Refused(NoBlocking::Async) => NameError::WouldBlock,
            Unanswered::Refused(NoBlocking::TooMany { limit }) => NameError::TooManyBlocked { limit },
        }
    }
}
