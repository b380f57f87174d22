//! Diagnostics: mistakes in the user's graph. Each has a stable code, the user's line and a help text, and is rendered
//! like an error of the Rust compiler.

mod code;

use std::fmt;
use std::path::PathBuf;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

pub use self::code::Code;
use crate::ir::SourceLocation;

/// One mistake in a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
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

    /// Returns the byte range in `source` of the word at the location. `None` if nothing begins there: then this is not
    /// the source that was compiled.
    fn span(&self, source: &str) -> Option<std::ops::Range<usize>> {
        let line_index = (self.location.line as usize).checked_sub(1)?;
        let line = source.lines().nth(line_index)?;
        let start: usize = source.split_inclusive('\n').take(line_index).map(str::len).sum();
        let column = (self.location.column as usize).checked_sub(1)?;
        let offset = line.char_indices().nth(column).map(|(offset, _)| offset)?;
        let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
        let (before, rest) = line.split_at_checked(offset)?;
        let is_inside = before.ends_with(is_of_word) && rest.starts_with(is_of_word);
        if is_inside || rest.starts_with(char::is_whitespace) {
            return None;
        }
        let end = rest.find(|c: char| !is_of_word(c)).filter(|end| *end > 0);
        Some(start + offset..start + offset + end.unwrap_or(rest.len()))
    }
}

/// Reads the user's file. The Rust compiler stores its path relative to the root of the workspace. The executable lies
/// below that root, in `target`; and cargo tells the package that it runs, which is the root or lies below it. The folder
/// where the program was started says nothing: it may be another package, with a file of that name.
fn read(file: &str) -> Option<String> {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let places = [std::env::current_exe().ok(), package];
    let mut files = places.iter().flatten().flat_map(|place| place.ancestors());
    files.find_map(|folder| std::fs::read_to_string(folder.join(file)).ok())
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
