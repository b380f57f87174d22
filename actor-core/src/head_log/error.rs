//! The defects of a head's log.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// The reason that a head has no use of its log.
#[derive(Error)]
#[error("the log of the head at `{}`: {cause}", .path.display())]
pub struct HeadLogError {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub cause: HeadLogCause,
}

selvedge_channels::debug_is_report!(HeadLogError);

/// The defect of a head's log.
#[derive(Error)]
#[non_exhaustive]
pub enum HeadLogCause {
    /// The system does not read or write it.
    #[error("{doing}: {error}")]
    Io {
        /// The step that failed.
        doing: &'static str,
        /// The system's reason.
        error: io::Error,
    },
    /// A head has it.
    #[error("another head writes it (help: end that one first, or give this one a log of its own)")]
    InUse,
    /// The file begins like no log.
    #[error("the file is no log of a head: name another one")]
    NoLog,
    /// The file is of another version of selvedge.
    #[error("it has format {found}, and this program writes format {ours}: remove it to begin a new cluster")]
    Format {
        /// The format of the file.
        found: u16,
        /// The format of this program.
        ours: u16,
    },
    /// The log is that of another cluster.
    #[error("it is of the cluster `{found}`, and this head is of `{wanted}`: name the log of this cluster")]
    OtherCluster {
        /// The name of the cluster in the file.
        found: String,
        /// The name of the head's cluster.
        wanted: String,
    },
    /// The log is of another build of the program, whose workers this head could not let in.
    #[error(
        "it is of build {found} of the program, and this is build {ours}: start that build, or end its workers and remove the file"
    )]
    OtherBuild {
        /// The build in the file.
        found: String,
        /// The build of this program.
        ours: String,
    },
    /// Bytes in the middle were changed. What is behind them may have been told, so nothing is left out silently.
    #[error("it is damaged at byte {at}: {why} (help: restore it, or remove it to begin a new cluster)")]
    Damaged {
        /// The place of the first frame that is wrong.
        at: u64,
        /// The defect.
        why: String,
    },
}

selvedge_channels::debug_is_report!(HeadLogCause);

impl HeadLogCause {
    pub(super) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> HeadLogCause {
        move |error| HeadLogCause::Io { doing, error }
    }
}
