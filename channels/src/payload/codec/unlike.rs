//! The error for a value of another kind than a type reads.

use std::convert::Infallible;
use std::fmt;

use serde::de::{Expected, Visitor};

/// A visitor that refuses every value, with the error of the visitor that expects another one.
pub(super) struct Unlike<'a>(pub(super) &'a dyn Expected);

impl Visitor<'_> for Unlike<'_> {
    type Value = Infallible;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
