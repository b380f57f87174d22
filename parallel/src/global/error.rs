//! The reasons that a global has no value, or keeps the one that it has.

use selvedge_core::{CallError, FetchError, SetError};

/// The reason that a global has no value, or keeps the one that it has.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum GlobalError {
    /// The global has no value: none was set yet, or it was cleared.
    #[error("the global `{name}` has no value: `set` gives it one, before it is passed")]
    Empty {
        /// The name of the global.
        name: String,
    },
    /// The global is a constant.
    #[error(
        "the global `{name}` is a constant: it keeps its value until the last handle of its maker is dropped"
    )]
    Constant {
        /// The name of the global.
        name: String,
    },
    /// The handle has come from another process, and only its maker sets or clears a global.
    #[error("the global `{name}` belongs to the process that has made it, which alone sets and clears it")]
    NotMaker {
        /// The name of the global.
        name: String,
    },
    /// The value cannot be sent.
    #[error("the value of the global `{name}`: {error}")]
    Unset {
        /// The name of the global.
        name: String,
        /// The reason.
        error: Box<SetError>,
    },
    /// The value did not come.
    #[error("the value of the global `{name}`: {error}")]
    Unfetched {
        /// The name of the global.
        name: String,
        /// The reason.
        error: Box<FetchError>,
    },
    /// A process did not drop its copy.
    #[error("the global `{name}` was not dropped everywhere: {error}")]
    NotDropped {
        /// The name of the global.
        name: String,
        /// The reason.
        error: Box<CallError>,
    },
}

selvedge_channels::debug_is_report!(GlobalError);
