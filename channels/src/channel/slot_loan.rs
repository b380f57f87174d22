//! Slot loans: the place of a message in a slot before it is sent. Between processes, both kinds of loan hold a slot
//! loan.

use crate::error::ChannelError;
use crate::kind::{AnySink, Sink};
use crate::payload::{Element, NumbersFrame, Wire};
use crate::shared::{Lent, SharedWriter};

/// A lent slot, with the frame of the numbers that are written into it.
pub(super) struct SlotLoan<'w> {
    writer: &'w mut SharedWriter,
    lent: Lent,
    frame: NumbersFrame,
}

impl<'w> SlotLoan<'w> {
    /// Lends the place for a frame in the next slot, which must be free.
    pub(super) fn of(
        lender: Option<&'w mut SharedWriter>,
        frame: NumbersFrame,
    ) -> Result<Self, ChannelError> {
        let writer = lender.ok_or(ChannelError::Full)?;
        let lent = writer.lend(frame.len_bytes())?;
        frame.write_prefix(writer.lent_mut(&lent)?);
        Ok(SlotLoan { writer, lent, frame })
    }

    /// The numbers. The access cannot fail, because `of` has checked place and length.
    pub(super) fn numbers<E: Element>(&self) -> &[E] {
        let bytes = self.writer.lent(&self.lent);
        bytes.map_or(&[], |bytes| self.frame.numbers(bytes))
    }

    /// The numbers, for writing.
    pub(super) fn numbers_mut<E: Element>(&mut self) -> &mut [E] {
        let bytes = self.writer.lent_mut(&self.lent);
        bytes.map_or(&mut [], |bytes| self.frame.numbers_mut(bytes))
    }

    /// Sends the numbers that were written.
    pub(super) fn publish(self) -> Result<(), ChannelError> {
        self.writer.publish_lent(&self.lent)
    }
}

/// Sends a value into the next slot, which is free.
pub(super) fn put<T: Wire>(sink: &mut AnySink<T>, value: T) -> Result<(), ChannelError> {
    if sink.put(&mut Some(Ok(value)))? {
        return Ok(());
    }
    Err(ChannelError::Full)
}
