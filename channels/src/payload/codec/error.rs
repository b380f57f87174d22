//! Errors of the codec, with their place in the value.

use std::fmt;

use super::LEVELS_MAX;

/// The maximum number of steps in the place of an error. The innermost steps are kept.
const STEPS_MAX: usize = 32;

/// The reason why a value could not be encoded or decoded, and the place in it: an error of its type's own `Serialize`
/// or `Deserialize`, or bytes that do not match the type.
pub struct SerdeError(Why);

enum Why {
    /// The writer has stopped; the reason is in its field `stop`.
    Stopped,
    /// The value nests too deep; the writer or reader has noted it.
    TooDeep,
    Said(Box<Reason>),
}

struct Reason {
    what: String,
    /// The path to the place of the error, from the inside out.
    steps: Vec<Step>,
}

enum Step {
    Name(&'static str),
    Index(usize),
}

impl SerdeError {
    /// The error of a writer that has stopped and holds the reason in its field `stop`.
    pub(super) fn stopped() -> Self {
        SerdeError(Why::Stopped)
    }

    /// The error of a value that nests too deep.
    pub(super) fn too_deep() -> Self {
        SerdeError(Why::TooDeep)
    }

    pub(in crate::payload) fn is_too_deep(&self) -> bool {
        matches!(self.0, Why::TooDeep)
    }

    #[cold]
    pub(crate) fn said(what: impl fmt::Display) -> Self {
        SerdeError(Why::Said(Box::new(Reason {
            what: what.to_string(),
            steps: Vec::new(),
        })))
    }

    #[cold]
    fn step(mut self, step: Step) -> Self {
        if let Why::Said(said) = &mut self.0
            && said.steps.len() < STEPS_MAX
        {
            said.steps.push(step);
        }
        self
    }

    /// Adds the field or variant that contains the error to its place.
    #[cold]
    pub(super) fn in_name(self, name: &'static str) -> Self {
        self.step(Step::Name(name))
    }

    /// Adds the element that contains the error to its place.
    #[cold]
    pub(super) fn in_index(self, index: usize) -> Self {
        self.step(Step::Index(index))
    }
}

impl fmt::Display for SerdeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = match &self.0 {
            Why::Stopped => return f.write_str("its `Serialize` went on after an error"),
            Why::TooDeep => return write!(f, "it nests deeper than {LEVELS_MAX} levels"),
            Why::Said(said) => said,
        };
        f.write_str(&said.what)?;
        if said.steps.is_empty() {
            return Ok(());
        }
        f.write_str(", at `")?;
        for step in said.steps.iter().rev() {
            match step {
                Step::Name(name) => write!(f, ".{name}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        f.write_str("`")
    }
}

crate::debug_is_report!(SerdeError);

impl std::error::Error for SerdeError {}

impl serde::ser::Error for SerdeError {
    fn custom<T: fmt::Display>(what: T) -> Self {
        SerdeError::said(what)
    }
}

impl serde::de::Error for SerdeError {
    fn custom<T: fmt::Display>(what: T) -> Self {
        SerdeError::said(what)
    }
}

/// Whether a serializer or deserializer with the error type `E` belongs to this codec, or wraps one that does.
pub(in crate::payload) fn is_ours<E>() -> bool {
    typeid::of::<E>() == std::any::TypeId::of::<SerdeError>()
}
