//! A variant as a JSON reader presents it: a map of one entry.

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeSeed, MapAccess};

use super::error::SerdeError;
use super::read::ValueReader;

/// A variant as a map of one entry, which the reader is at.
pub(super) struct OneEntry<'r, 'de, const NAMED: bool> {
    pub(super) name: Option<&'de str>,
    pub(super) reader: &'r mut ValueReader<'de, NAMED>,
}

impl<'de, const NAMED: bool> MapAccess<'de> for OneEntry<'_, 'de, NAMED> {
    type Error = SerdeError;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, SerdeError> {
        match self.name.take() {
            Some(name) => seed.deserialize(BorrowedStrDeserializer::new(name)).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, SerdeError> {
        seed.deserialize(&mut *self.reader)
    }
}
