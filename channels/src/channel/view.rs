//! A message read where it lies.

use std::fmt;

use super::reader::Reader;
use crate::error::ChannelError;
use crate::payload::Wire;

/// The message a reader is at, in place. The writer leaves its slot alone until this is dropped.
pub struct View<'r, T: Wire> {
    reader: &'r mut Reader<T>,
}

impl<T: Wire> fmt::Debug for View<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View")
            .field("message", &self.reader.position())
            .finish()
    }
}

impl<'r, T: Wire> View<'r, T> {
    pub(super) fn new(reader: &'r mut Reader<T>) -> Self {
        View { reader }
    }

    /// The value; between processes it is decoded at the first call. A `Tensor` borrows its bytes from the slot.
    ///
    /// # Errors
    /// [`ChannelError::Decode`] when the bytes are no `T`.
    pub fn get(&self) -> Result<&T, ChannelError> {
        self.reader.value().get()
    }
}

impl<E: 'static> View<'_, Vec<E>>
where
    Vec<E>: Wire,
    E: Wire,
{
    /// The elements; in place where they are primitive numbers.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn slice(&self) -> Result<&[E], ChannelError> {
        self.reader.value().slice()
    }
}

impl View<'_, String> {
    /// The text, in place.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn text(&self) -> Result<&str, ChannelError> {
        self.reader.value().text()
    }
}

impl<T: Wire> Drop for View<'_, T> {
    fn drop(&mut self) {
        self.reader.pass();
    }
}
