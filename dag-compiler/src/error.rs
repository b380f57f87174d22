//! The error of a graph that was refused.

use std::fmt;

use crate::diagnostic::Diagnostic;

/// The largest number of mistakes that are printed; [`CompileError::diagnostics`] holds all of them.
const SHOWN_MAX: usize = 50;

/// Every mistake found in a graph, in the order of the program.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompileError {
    /// One diagnostic per mistake; never empty.
    pub diagnostics: Vec<Diagnostic>,
}

impl CompileError {
    /// Creates the error with each mistake once, because a broken edge is reported wherever it is used.
    pub(crate) fn all(mistakes: Vec<Diagnostic>) -> Self {
        let mut diagnostics: Vec<Diagnostic> = Vec::with_capacity(mistakes.len());
        for mistake in mistakes {
            if !diagnostics.contains(&mistake) {
                diagnostics.push(mistake);
            }
        }
        CompileError { diagnostics }
    }
}

impl From<Diagnostic> for CompileError {
    fn from(diagnostic: Diagnostic) -> Self {
        CompileError {
            diagnostics: vec![diagnostic],
        }
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.diagnostics.iter().take(SHOWN_MAX).enumerate() {
            if index > 0 {
                f.write_str("\n\n")?;
            }
            fmt::Display::fmt(diagnostic, f)?;
        }
        match self.diagnostics.len().saturating_sub(SHOWN_MAX) {
            0 => Ok(()),
            more => write!(f, "\n\n… and {more} more"),
        }
    }
}

selvedge_channels::debug_is_report!(CompileError);

impl std::error::Error for CompileError {}
