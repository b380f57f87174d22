//! The place of a message in a slot, before it is sent: what both kinds of loan are between processes.

use crate::error::ChannelError;
use crate::payload::{Element, NumbersFrame};
use crate::shared::{Lent, SharedWriter};

/// A lent slot with the frame of the numbers that are written there.
pub(super) struct SlotLoan<'w> {
    writer: &'w mut SharedWriter,
    lent: Lent,
    frame: NumbersFrame,
}

impl<'w> SlotLoan<'w> {
    /// The place for such a frame in the next slot, which is free.
    pub(super) fn of(writer: &'w mut SharedWriter, frame: NumbersFrame) -> Result<Self, ChannelError> {
        let lent = writer.lend(frame.len_bytes())?;
        frame.write_prefix(writer.lent_mut(&lent)?);
        Ok(SlotLoan { writer, lent, frame })
    }

    /// The numbers. `of` has looked: place and length do.
    pub(super) fn numbers<E: Element>(&self) -> &[E] {
        let bytes = self.writer.lent(&self.lent);
        bytes.map_or(&[], |bytes| self.frame.numbers(bytes))
    }

    /// The numbers, to be written.
    pub(super) fn numbers_mut<E: Element>(&mut self) -> &mut [E] {
        let bytes = self.writer.lent_mut(&self.lent);
        bytes.map_or(&mut [], |bytes| self.frame.numbers_mut(bytes))
    }

    /// Sends what has been written.
    pub(super) fn publish(self) -> Result<(), ChannelError> {
        self.writer.publish_lent(&self.lent)
    }
}
