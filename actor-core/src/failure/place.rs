//! The functions whose values were not made because of a failure.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::text::read_text;
use crate::process_name::ProcessName;

/// A remote function, and the process in which it ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FunctionPlace {
    /// The function's path.
    #[serde(deserialize_with = "read_text")]
    pub path: String,
    /// The process; `None` if the call was for none yet.
    pub process: Option<ProcessName>,
}

impl fmt::Display for FunctionPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.path)?;
        match &self.process {
            Some(process) => write!(f, " on {process}"),
            None => Ok(()),
        }
    }
}

pub(super) fn write_functions(functions: &[FunctionPlace], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    functions
        .iter()
        .try_for_each(|function| write!(f, "{function} failed: "))
}

/// The maximum number of functions that a failure names.
const FUNCTIONS_MAX: usize = 16;

/// Leaves those of the functions that have failed first, which are the last ones.
pub(super) fn keep_first_to_fail(functions: &mut Vec<FunctionPlace>) {
    let surplus = functions.len().saturating_sub(FUNCTIONS_MAX);
    drop(functions.drain(..surplus));
}
