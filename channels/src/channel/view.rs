//! Views: messages that are read in place.

use std::fmt;

use super::reader::Reader;
use crate::error::ChannelError;
use crate::kind::Source;
use crate::memory::made_in::MadeIn;
use crate::payload::Wire;

/// The next message of a reader, in place. The writer does not reuse its slot until the view is dropped.
pub struct View<'r, T: Wire> {
    reader: &'r mut Reader<T>,
    made_in: MadeIn,
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
        View {
            reader,
            made_in: MadeIn::here(),
        }
    }

    /// The value. Between processes, the first call decodes it, and a `Tensor` borrows its bytes from the slot.
    ///
    /// # Errors
    /// [`ChannelError::Decode`] if the bytes are no `T`.
    pub fn get(&self) -> Result<&T, ChannelError> {
        self.reader.source.get()
    }
}

impl<E: 'static> View<'_, Vec<E>>
where
    Vec<E>: Wire,
    E: Wire,
{
    /// The elements, in place if they are primitive numbers. A process that writes to the slot meanwhile, against the protocol
    /// of channels, changes them under the reader's eyes; [`recv`](Reader::recv) copies them.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub fn slice(&self) -> Result<&[E], ChannelError> {
        self.reader.source.slice()
    }
}

impl View<'_, String> {
    /// The text, in place. It is checked once; a process that writes to the slot meanwhile, against the protocol of channels,
    /// can make it invalid. [`get`](Self::get) and [`recv`](Reader::recv) copy the text and check the copy.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub fn text(&self) -> Result<&str, ChannelError> {
        self.reader.source.text()
    }
}

impl<T: Wire> Drop for View<'_, T> {
    fn drop(&mut self) {
        if self.made_in.is_here() {
            self.reader.pass();
        }
    }
}
