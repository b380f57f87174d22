//! The texts of errors, of limited length.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use selvedge_channels::dispose;
use serde::de::{Deserializer, Visitor};

use crate::cut_text;

/// The maximum number of sources in a report: a cyclic `source` must not hang the thread that reports.
pub(super) const SOURCES_MAX: usize = 16;

/// The texts of an error's sources that `said` and the texts before do not contain.
pub(super) fn sources(error: &(dyn Error + 'static), said: &str) -> Box<[String]> {
    let mut texts: Vec<String> = Vec::new();
    let mut next = error.source();
    for _ in 0..SOURCES_MAX {
        let Some(source) = next else { break };
        let text = text(source);
        if !said.contains(&text) && !texts.iter().any(|before| before.contains(&text)) {
            texts.push(text);
        }
        next = source.source();
    }
    texts.into()
}

/// An error of user code as text: its message, and those of its sources that the message does not contain.
pub(crate) struct WithSources<'a>(pub(crate) &'a (dyn Error + 'static));

impl fmt::Display for WithSources<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = text(self.0);
        f.write_str(&message)?;
        write_sources(&sources(self.0, &message), f)
    }
}

/// Writes the texts of sources behind a message.
pub(super) fn write_sources(sources: &[String], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    sources.iter().try_for_each(|source| write!(f, ": {source}"))
}

/// Returns the message of an error. `Display` is user code, so a panic in it is caught.
pub(super) fn text(error: &(dyn Error + 'static)) -> String {
    let said = catch_unwind(AssertUnwindSafe(|| error.to_string()));
    cut(said.unwrap_or_else(|_| "an error whose Display panicked".to_owned()))
}

/// The maximum length of a text in a report; a longer text is cut.
const TEXT_BYTES_MAX: usize = 16 * 1024;

/// Cuts a text. One that was cut before stays as it is.
pub(super) fn cut(text: impl AsRef<str> + Into<String>) -> String {
    cut_text::cut(text.as_ref(), TEXT_BYTES_MAX).unwrap_or_else(|| text.into())
}

/// Returns the text of a panic's payload and drops the payload. Panics of that drop are caught.
#[must_use]
pub fn panic_message(payload: Box<dyn Any + Send>) -> String {
    let message = if let Some(text) = payload.downcast_ref::<&'static str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic whose payload is not text".to_owned()
    };
    dispose(payload);
    message
}

/// Reads a text of another process, and cuts it.
pub(super) fn read_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    deserializer.deserialize_str(CutText)
}

struct CutText;

impl Visitor<'_> for CutText {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E>(self, text: &str) -> Result<String, E> {
        Ok(cut(text))
    }
}
