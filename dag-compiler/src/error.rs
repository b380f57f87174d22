//! Why a graph was refused.

use std::fmt;

use crate::diagnostic::Diagnostic;

/// Every mistake found in a graph, in the order of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    /// One per mistake; never empty.
    pub diagnostics: Vec<Diagnostic>,
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
        for (index, diagnostic) in self.diagnostics.iter().enumerate() {
            if index > 0 {
                f.write_str("\n\n")?;
            }
            diagnostic.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for CompileError {}
