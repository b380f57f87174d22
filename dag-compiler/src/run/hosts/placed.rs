//! A long message that is received into its slot of the mirror: the slot is the memory of the letter's body while that arrives.
//!
//! The writer of the mirror is in the body meanwhile, so nobody writes another message, and the ring does not grow under this one. The writer
//! comes back when the body is dropped: because the message is there, or because it will begin again, or never come.

use std::sync::Arc;

use parking_lot::Mutex;
use selvedge_channels::{OwnedLoan, SharedWriter};
use selvedge_core::LentMemory;

/// The place to which a writer comes back, with the slot that it was lent with.
#[derive(Clone, Default)]
pub(super) struct WriterHome(Arc<Mutex<Option<OwnedLoan>>>);

/// A writer with its slot in hand.
struct PlacedSlot {
    loan: Option<OwnedLoan>,
    home: WriterHome,
}

impl WriterHome {
    /// The next slot of a writer as memory for a body, and its address. The writer comes back if it has none.
    #[allow(
        clippy::result_large_err,
        reason = "the writer is no error: it goes back to where it was"
    )]
    pub(super) fn lend(
        &self,
        writer: SharedWriter,
        bytes: usize,
    ) -> Result<(usize, Box<dyn LentMemory>), SharedWriter> {
        let loan = writer.into_loan(bytes)?;
        let address = loan.bytes().as_ptr().addr();
        let slot = PlacedSlot {
            loan: Some(loan),
            home: self.clone(),
        };
        Ok((address, Box::new(slot)))
    }

    /// Takes the writer with its slot, if it is back.
    pub(super) fn take(&self) -> Option<OwnedLoan> {
        self.0.lock().take()
    }
}

impl LentMemory for PlacedSlot {
    fn bytes(&self) -> &[u8] {
        self.loan.as_ref().map(OwnedLoan::bytes).unwrap_or_default()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.loan.as_mut().map(OwnedLoan::bytes_mut).unwrap_or_default()
    }
}

impl Drop for PlacedSlot {
    fn drop(&mut self) {
        *self.home.0.lock() = self.loan.take();
    }
}
