//! Diagnostics: mistakes in the user's graph. Each has a stable code, the user's line and a help text, and is rendered
//! like an error of the Rust compiler.

use std::fmt;
use std::path::Path;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use crate::ir::SourceLocation;

/// The stable codes of mistakes in a graph. Each code has a [page](Code::page).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// D0101: edges of two graphs meet in one task.
    MixedGraphs,
    /// D0102: a task without an edge among its arguments.
    NoInputEdge,
    /// D0103: a result, or a part of a result, that is never used.
    Dangling,
    /// D0104: an input of the graph that is never used.
    UnusedInput,
    /// D0105: an actor runs in another graph.
    ActorBusy,
    /// D0106: an actor is dead.
    ActorDead,
    /// D0107: an actor of another runtime.
    ForeignActor,
    /// D0108: an option is out of bounds.
    InvalidOption,
    /// D0109: the schedule would deadlock.
    Deadlock,
    /// D0110: an output that is a constant, or no output at all.
    NoOutput,
    /// D0111: the memory for the channels cannot be allocated.
    OutOfMemory,
    /// D0112: a process could not load its programs.
    LoadFailed,
    /// D0113: a part of a tuple that is split again.
    NestedSplit,
    /// D0114: a constant that cannot be encoded.
    BadConstant,
    /// D0115: a task that is to run after one that is bound later.
    OrderedLater,
    /// D0116: a list of edges for a parameter that is not written as a list.
    NoList,
    /// D0117: ranks that cannot do a collective together.
    BadRanks,
    /// D0118: a communicator that does not exist or cannot do what the graph asks of it.
    NoCommunicator,
    /// D0119: tensors that cannot lie on the device that was declared for them.
    BadDevice,
    /// D0199: a violated invariant of selvedge itself.
    Internal,
}

impl Code {
    /// Returns the code as text, for example `D0103`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Code::MixedGraphs => "D0101",
            Code::NoInputEdge => "D0102",
            Code::Dangling => "D0103",
            Code::UnusedInput => "D0104",
            Code::ActorBusy => "D0105",
            Code::ActorDead => "D0106",
            Code::ForeignActor => "D0107",
            Code::InvalidOption => "D0108",
            Code::Deadlock => "D0109",
            Code::NoOutput => "D0110",
            Code::OutOfMemory => "D0111",
            Code::LoadFailed => "D0112",
            Code::NestedSplit => "D0113",
            Code::BadConstant => "D0114",
            Code::OrderedLater => "D0115",
            Code::NoList => "D0116",
            Code::BadRanks => "D0117",
            Code::NoCommunicator => "D0118",
            Code::BadDevice => "D0119",
            Code::Internal => "D0199",
        }
    }

    /// Every code.
    pub const ALL: [Code; 20] = [
        Code::MixedGraphs,
        Code::NoInputEdge,
        Code::Dangling,
        Code::UnusedInput,
        Code::ActorBusy,
        Code::ActorDead,
        Code::ForeignActor,
        Code::InvalidOption,
        Code::Deadlock,
        Code::NoOutput,
        Code::OutOfMemory,
        Code::LoadFailed,
        Code::NestedSplit,
        Code::BadConstant,
        Code::OrderedLater,
        Code::NoList,
        Code::BadRanks,
        Code::NoCommunicator,
        Code::BadDevice,
        Code::Internal,
    ];

    /// Returns the code with this text; upper and lower case are equal.
    pub fn find(text: &str) -> Option<Code> {
        Code::ALL
            .into_iter()
            .find(|code| code.as_str().eq_ignore_ascii_case(text))
    }

    /// Returns the page about this kind of mistake: its meaning, an example, and the fix.
    pub fn page(self) -> &'static str {
        let pages = include_str!("diagnostic/pages.md");
        let own = |page: &&str| page.starts_with(self.as_str());
        pages.split("## ").find(own).map_or("", str::trim_end)
    }

    /// Returns a short text on how to fix this kind of mistake.
    pub const fn help(self) -> &'static str {
        match self {
            Code::MixedGraphs => "bind all edges of a task inside one call of `compile`",
            Code::NoInputEdge => {
                "give it an edge, start it with `.after(&input)`, or compute the value before the graph and use `constant`"
            }
            Code::Dangling => "return the edge as an output, feed it to a task, or do not bind the method",
            Code::UnusedInput => "take fewer inputs, or use this one",
            Code::ActorBusy => "tear the other graph down first, or spawn another actor",
            Code::ActorDead => "spawn it anew, or give it `.restart(Restart::OnFailure { max })`",
            Code::ForeignActor => "spawn all actors of a graph on the runtime that compiles it",
            Code::InvalidOption => "choose a value within the bounds",
            Code::Deadlock => {
                "change the plan as proposed; if the compiler made it, please report it with `Graph::describe`"
            }
            Code::NoOutput => "return the edge of a task or an input of the graph",
            Code::OutOfMemory => {
                "see the reason; for want of memory, lower `max_inflight` or `buffer_bytes`, or give the process more"
            }
            Code::LoadFailed => "the reason says what is missing",
            Code::NestedSplit => "return one flat tuple, or give the part to a task that takes it whole",
            Code::BadConstant => "mend the type's `Serialize`",
            Code::OrderedLater => "bind first what is to run first: give it a `let` before this line",
            Code::NoList => "write the parameter's type as `Vec<T>` or `&[T]`, not by another name",
            Code::BadRanks => "give it one edge for each rank, each made by a task of another actor",
            Code::NoCommunicator => {
                "name one that is linked into this program, or none: shared memory does everything between processes of a host"
            }
            Code::BadDevice => {
                "say it of an edge whose type carries tensors of a device, and the same of an edge as of the actor that makes it"
            }
            Code::Internal => "please report this with the graph that shows it",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

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
