//! A loan that owns its writer: a slot that is filled elsewhere, such as by whoever reads a network, while nobody else writes.

use super::SharedWriter;
use super::writer::Lent;
use crate::error::ChannelError;

/// A writer whose next slot is being filled. The slot has room for as many bytes as were asked for.
pub struct OwnedLoan {
    writer: SharedWriter,
    lent: Lent,
}

impl SharedWriter {
    /// Lends the next slot for a value of `len` bytes. The writer comes back as it was if no slot is free, or none can be had for
    /// so many bytes; a write tells why.
    ///
    /// # Errors
    /// The writer.
    #[allow(
        clippy::result_large_err,
        reason = "the writer is no error: it goes back to where it was"
    )]
    pub fn into_loan(mut self, len: usize) -> Result<OwnedLoan, Self> {
        if !self.has_space().unwrap_or(false) {
            return Err(self);
        }
        match self.lend(len) {
            Ok(lent) => Ok(OwnedLoan { writer: self, lent }),
            Err(_) => Err(self),
        }
    }
}

impl OwnedLoan {
    /// The bytes of the slot.
    pub fn bytes(&self) -> &[u8] {
        // The slot was lent by this writer, which has published nothing since.
        self.writer.lent(&self.lent).unwrap_or_default()
    }

    /// The bytes of the slot, to be filled.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // As in `bytes`.
        self.writer.lent_mut(&self.lent).unwrap_or_default()
    }

    /// Publishes the value, and gives the writer back.
    pub fn publish(mut self) -> (SharedWriter, Result<(), ChannelError>) {
        let published = self.writer.publish_lent(&self.lent);
        (self.writer, published)
    }

    /// Gives the writer back. The slot is as free as before.
    pub fn give_back(self) -> SharedWriter {
        self.writer
    }
}
