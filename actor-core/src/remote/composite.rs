//! The errors of several calls that were made together.

use std::fmt;

use crate::call::CallError;

/// The errors of several calls that were made together, at least one.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub struct Composite {
    /// The errors, by the number of the process, or in the order in which the calls were made.
    pub errors: Vec<CallError>,
    /// The number of calls.
    pub calls: usize,
}

selvedge_channels::debug_is_report!(Composite);

impl fmt::Display for Composite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} calls failed", self.errors.len(), self.calls)?;
        let mut mark = ": ";
        for error in &self.errors {
            write!(f, "{mark}{error}")?;
            mark = "; ";
        }
        Ok(())
    }
}
