//! What went wrong in a value, and where in it.

use std::fmt;

/// Deeper places are not told one by one.
const STEPS_MAX: usize = 32;

/// Why a value could not be encoded or decoded, and where in it: what its type's own `Serialize` or `Deserialize` said, or
/// what the bytes did not fit.
pub struct SerdeError(Why);

enum Why {
    /// The writer knows why.
    Stopped,
    Said(Box<Said>),
}

struct Said {
    what: String,
    /// From the inside out.
    steps: Vec<Step>,
}

enum Step {
    Name(&'static str),
    Index(usize),
}

impl SerdeError {
    /// The writer has been stopped, and knows why.
    pub(super) fn stopped() -> Self {
        SerdeError(Why::Stopped)
    }

    #[cold]
    pub(crate) fn said(what: impl fmt::Display) -> Self {
        SerdeError(Why::Said(Box::new(Said {
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

    /// The error lies in this field, or variant.
    #[cold]
    pub(super) fn in_name(self, name: &'static str) -> Self {
        self.step(Step::Name(name))
    }

    /// The error lies in this element.
    #[cold]
    pub(super) fn in_index(self, index: usize) -> Self {
        self.step(Step::Index(index))
    }
}

impl fmt::Display for SerdeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Why::Said(said) = &self.0 else {
            return f.write_str("its `Serialize` went on after an error");
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

/// Whether a serializer or deserializer whose error is an `E` is one of these, or is put around one.
pub(in crate::payload) fn is_ours<E>() -> bool {
    typeid::of::<E>() == std::any::TypeId::of::<SerdeError>()
}
