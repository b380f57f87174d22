//! Reports of other processes, whose bytes are hostile: each part is cut while it is read.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};

use super::place::{FunctionPlace, keep_first_to_fail};
use super::text::{SOURCES_MAX, read_text};
use crate::error_codec::ERROR_BYTES_MAX;

/// Reads the texts of sources, of which the nearest ones are kept.
pub(super) fn read_sources<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<[String]>, D::Error> {
    let mut sources = Vec::new();
    read_each(deserializer, |Text(source)| {
        if sources.len() < SOURCES_MAX {
            sources.push(source);
        }
    })?;
    Ok(sources.into())
}

/// Reads functions, of which those that have failed first are kept.
pub(super) fn read_functions<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Box<[FunctionPlace]>, D::Error> {
    let mut functions = Vec::new();
    read_each(deserializer, |function| {
        functions.push(function);
        keep_first_to_fail(&mut functions);
    })?;
    Ok(functions.into())
}

/// Reads an encoded error. One that is too large travels as its texts only.
pub(super) fn read_encoded<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Box<[u8]>>, D::Error> {
    let encoded = Option::<Box<[u8]>>::deserialize(deserializer)?;
    Ok(encoded.filter(|bytes| bytes.len() <= ERROR_BYTES_MAX))
}

/// A text that is cut while it is read.
#[derive(serde::Deserialize)]
struct Text(#[serde(deserialize_with = "read_text")] String);

/// Reads a list of any length, one element at a time.
fn read_each<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
    each: impl FnMut(T),
) -> Result<(), D::Error> {
    deserializer.deserialize_seq(Each(each, PhantomData))
}

struct Each<F, T>(F, PhantomData<T>);

impl<'de, T: Deserialize<'de>, F: FnMut(T)> Visitor<'de> for Each<F, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(element) = list.next_element()? {
            (self.0)(element);
        }
        Ok(())
    }
}
