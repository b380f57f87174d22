//! Failures as plain data, which travels between processes.

use std::error::Error;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::place::{FunctionPlace, write_functions};
use super::text::cut;

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
    pub(super) fn new(kind: FailureKind, message: String) -> Self {
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
