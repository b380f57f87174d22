//! Diagnostics: mistakes in the user's graph. Each has a stable code, the user's line and a help text, and is rendered
//! like an error of the Rust compiler.

mod code;

use std::fmt;
use std::path::Path;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

pub use self::code::Code;
use crate::ir::SourceLocation;

/// One mistake in a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The kind of the mistake.
    pub code: Code,
    /// The description of the mistake.
    pub message: String,
    /// The position in the user's program.
    pub location: SourceLocation,
    /// The text under the line; empty for no text.
    pub label: String,
}

impl Diagnostic {
    /// Creates a mistake at a line.
    pub fn new(code: Code, message: impl Into<String>, location: SourceLocation) -> Self {
        Diagnostic {
            code,
            message: message.into(),
            location,
            label: String::new(),
        }
    }

    /// Sets the text under the line.
    pub fn labelled(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Creates the mistake of a task that no edge starts.
    pub(crate) fn no_input_edge(label: &str, location: SourceLocation) -> Self {
        let message = format!("`{label}` takes no edge, so nothing would ever start it");
        Diagnostic::new(Code::NoInputEdge, message, location).labelled("all its arguments are constants")
    }

    /// Returns the byte range in `source` of the word at the location.
    fn span(&self, source: &str) -> Option<std::ops::Range<usize>> {
        let line_index = (self.location.line as usize).checked_sub(1)?;
        let line = source.lines().nth(line_index)?;
        let start: usize = source.split_inclusive('\n').take(line_index).map(str::len).sum();
        let column = (self.location.column as usize).checked_sub(1)?;
        let offset = line.char_indices().nth(column).map(|(offset, _)| offset)?;
        let word = line
            .get(offset..)?
            .find(|c: char| !(c.is_alphanumeric() || c == '_'))
            .filter(|end| *end > 0);
        let end = word.map_or(line.len(), |end| offset + end);
        Some(start + offset..start + end)
    }
}

/// Reads the user's file. The Rust compiler stores its path relative to the root of the workspace. Programs run in that
/// root or, under `cargo test`, in a package's folder below it, so this function tries every parent of the current
/// folder.
fn read(file: &str) -> Option<String> {
    let here = std::env::current_dir().ok()?;
    here.ancestors()
        .map(|folder: &Path| folder.join(file))
        .find_map(|path| std::fs::read_to_string(path).ok())
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = read(&self.location.file).unwrap_or_default();
        let Some(span) = self.span(&source) else {
            // The source is not present where the program runs, so the text names the line instead of showing it.
            let Diagnostic {
                code,
                message,
                location,
                label,
            } = self;
            write!(f, "error[{code}]: {message}\n  --> {location}")?;
            if !label.is_empty() {
                write!(f, "\n   = {label}")?;
            }
            return write!(f, "\n   = help: {}", code.help());
        };
        let annotation = AnnotationKind::Primary.span(span).label(self.label.as_str());
        let snippet = Snippet::source(source.as_str())
            .path(&*self.location.file)
            .annotation(annotation);
        let group = Level::ERROR
            .primary_title(self.message.as_str())
            .id(self.code.as_str())
            .element(snippet)
            .element(Level::HELP.message(self.code.help()));
        write!(f, "{}", Renderer::plain().render(&[group]))
    }
}
