//! Failures as plain data, which travels between processes.
//!
//! A report of another process is cut while it is read, so that the process that passes it on keeps the limits of its links.

use std::error::Error;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::place::{FunctionPlace, write_functions};
use super::reading::{read_encoded, read_functions, read_sources};
use super::text::{cut, read_text, write_sources};

/// The kind of a [`Failure`](super::Failure), as plain data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
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

/// A [`Failure`](super::Failure) as plain data, the form in which an error travels between processes. It is itself an error, with the
/// text of the original and those texts of its sources that the original does not contain.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FailureReport {
    /// The kind of failure.
    pub kind: FailureKind,
    /// The name of the error's type, for [`FailureKind::Error`]; empty for other kinds.
    #[serde(deserialize_with = "read_text")]
    pub type_name: String,
    /// The error's text.
    #[serde(deserialize_with = "read_text")]
    pub message: String,
    /// The texts of the error's sources that the texts before do not contain, nearest first.
    #[serde(deserialize_with = "read_sources")]
    pub sources: Box<[String]>,
    /// The functions whose values were not made because of it, the last one first.
    #[serde(deserialize_with = "read_functions")]
    pub functions: Box<[FunctionPlace]>,
    /// The error itself, encoded, if serde knows its type.
    #[serde(deserialize_with = "read_encoded")]
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
        write_sources(&self.sources, f)
    }
}

impl Error for FailureReport {}

#[cfg(test)]
mod tests {
    use selvedge_cluster::frame::FrameLimits;
    use selvedge_cluster::peer::ProcessId;

    use super::*;
    use crate::process_name::ProcessName;

    fn bytes_of(report: &FailureReport) -> Vec<u8> {
        postcard::to_allocvec(report).unwrap()
    }

    fn read(bytes: &[u8]) -> FailureReport {
        postcard::from_bytes(bytes).unwrap()
    }

    #[test]
    fn a_report_of_another_process_is_cut_to_what_the_next_link_takes() {
        let long = || "ö".repeat(600 * 1024);
        let place = |number| FunctionPlace {
            path: long(),
            process: Some(ProcessName::of_worker(
                ProcessId::new(number).unwrap(),
                long().into(),
                Some(long().into()),
            )),
        };
        let hostile = FailureReport {
            kind: FailureKind::Error,
            type_name: long(),
            message: long(),
            sources: (0..20).map(|_| long()).collect(),
            functions: (1..=20).map(place).collect(),
            encoded: Some(vec![7; 600 * 1024].into()),
        };
        let report = read(&bytes_of(&hostile));
        let passed_on = bytes_of(&report);
        assert!(passed_on.len() < FrameLimits::default().head_bytes_max as usize * 3 / 4);
        assert_eq!(read(&passed_on), report, "what was cut is not cut again");
        assert!(report.message.starts_with("öö") && report.message.ends_with("ö…"));
        let first_to_fail = report.functions.last().and_then(|place| place.process.as_ref());
        assert_eq!(first_to_fail.map(|name| name.process().number()), Some(20));
        assert_eq!(report.encoded, None, "a part of an error is none");
    }

    #[test]
    fn a_report_within_the_limits_arrives_as_it_was_sent() {
        let lawful = FailureReport {
            type_name: "E".to_owned(),
            sources: ["because".to_owned(), String::new()].into(),
            functions: [FunctionPlace {
                path: "load".to_owned(),
                process: Some(ProcessName::of_number(ProcessId::new(2).unwrap())),
            }]
            .into(),
            encoded: Some([1, 2].into()),
            ..FailureReport::new(FailureKind::Panic, "boom".to_owned())
        };
        assert_eq!(read(&bytes_of(&lawful)), lawful);
    }
}
