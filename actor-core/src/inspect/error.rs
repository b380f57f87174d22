//! The reasons for which a process gives no table.

use std::io;
use std::time::Duration;

/// An error: a process was asked about its runtimes, and gave no table.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum InspectError {
    /// No process has this pid.
    #[error("there is no process {pid}")]
    NoProcess {
        /// The pid.
        pid: u32,
    },
    /// The process belongs to another user.
    #[error("process {pid} belongs to another user: ask as that user, or as root")]
    OtherUser {
        /// The pid.
        pid: u32,
    },
    /// The process has another network, so its socket cannot be reached from here.
    #[error("process {pid} is in another network namespace, as in a container: ask from within")]
    OtherNetwork {
        /// The pid.
        pid: u32,
    },
    /// The process listens nowhere.
    #[error("process {pid} has no runtime with actors or workers{}", hint(others))]
    NoRuntime {
        /// The pid.
        pid: u32,
        /// The processes that have such a runtime, whoever runs them.
        others: Vec<u32>,
    },
    /// The process has no runtime that can be asked, and its parent has one: as a rule, it is a worker.
    #[error("process {pid} is a child of process {parent}, which has the runtime: ask that one")]
    Child {
        /// The pid.
        pid: u32,
        /// The process to ask.
        parent: u32,
    },
    /// The process was built with another version of selvedge, which does not understand the question.
    #[error(
        "process {pid} has selvedge {theirs}, which does not understand a question of selvedge {ours}: ask with its version"
    )]
    OtherVersion {
        /// The pid.
        pid: u32,
        /// The version there.
        theirs: String,
        /// The version here.
        ours: String,
    },
    /// The process does not answer, as one does that is stopped, or whose control thread a watcher of its program holds up.
    #[error(
        "process {pid} has not answered within {waited:?}: it is stopped, or its control thread is held up"
    )]
    NoAnswer {
        /// The pid.
        pid: u32,
        /// The time that was waited.
        waited: Duration,
    },
    /// The process has ended the conversation without an answer, as one does that gets no thread from the system.
    #[error("process {pid} has ended the conversation: no thread is left for its answer, or it ends")]
    CutOff {
        /// The pid.
        pid: u32,
    },
    /// The process has answered something else than a table.
    #[error("the answer of process {pid} is no table: {what}")]
    Garbled {
        /// The pid.
        pid: u32,
        /// The part that is wrong.
        what: &'static str,
    },
    /// The system refuses the question.
    #[error("process {pid} cannot be asked: {error}")]
    System {
        /// The pid.
        pid: u32,
        /// The error of the system.
        error: io::Error,
    },
}

selvedge_channels::debug_is_report!(InspectError);

fn hint(others: &[u32]) -> String {
    if others.is_empty() {
        return "; nor has any other process here".to_owned();
    }
    let others: Vec<_> = others.iter().map(u32::to_string).collect();
    format!("; processes with one: {}", others.join(", "))
}
