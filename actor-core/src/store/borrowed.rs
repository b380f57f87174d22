//! Memory that is filled.
#![allow(unsafe_code)] // writes memory that other processes map

use std::sync::Arc;

use selvedge_channels::SegmentError;
use selvedge_channels::platform::extent_file::{ExtentFile, LentExtent};
use selvedge_objects::store::{Extent, StoreError};

use super::host_store::{HeldObject, HostStore};
use super::loan::StoreLoan;
use super::message::LentSpot;
use crate::body::Body;

/// The lender of the memory.
pub(super) enum BorrowedFrom {
    /// The store of this process.
    Host(Arc<HostStore>),
    /// Another process of the host.
    Agent {
        loan: StoreLoan,
        memory: Arc<ExtentFile>,
    },
}

/// Memory that this process fills. Dropped unsealed, it goes back.
pub(crate) struct Borrowed {
    lent: LentSpot,
    from: Option<BorrowedFrom>,
}

/// An object that was filled.
pub(crate) enum Sealed {
    /// In the store of this process.
    Here(HeldObject),
    /// In that of another process, which seals it when it is told the object's name.
    There(StoreLoan),
}

impl Borrowed {
    pub(super) fn new(lent: LentSpot, from: BorrowedFrom) -> Self {
        Borrowed {
            lent,
            from: Some(from),
        }
    }

    fn memory(&self) -> Result<&Arc<ExtentFile>, StoreError> {
        match &self.from {
            Some(BorrowedFrom::Host(host)) => Ok(host.memory()),
            Some(BorrowedFrom::Agent { memory, .. }) => Ok(memory),
            None => Err(StoreError::Gone),
        }
    }

    /// Reserves the pages of the memory, before it is written piece by piece.
    ///
    /// # Errors
    /// [`StoreError::Memory`].
    pub(super) fn prepare(&self) -> Result<(), StoreError> {
        reserve(self.memory()?, &self.lent.bare)
    }

    /// Writes a piece at a place of the memory, which was [prepared](Self::prepare). Returns the piece's CRC-32.
    ///
    /// # Errors
    /// [`StoreError::Memory`]: the piece does not lie in the memory.
    pub(super) fn write_at(&mut self, offset: u64, piece: &Body) -> Result<u32, StoreError> {
        let extent = self.lent.extent;
        let length = piece.len() as u64;
        if offset
            .checked_add(length)
            .is_none_or(|end| end > extent.len_bytes)
        {
            let why = "a piece lies outside of what the store has lent".to_owned();
            return Err(StoreError::Memory { why });
        }
        let part = Extent {
            offset: extent.offset.saturating_add(offset),
            len_bytes: length,
        };
        let mut lent = lend(self.memory()?, part, piece.len(), &[])?;
        piece.copy_to(lent.as_mut_slice());
        Ok(crc32fast::hash(lent.as_mut_slice()))
    }

    /// Has the memory filled: `fill` gets as many bytes as were asked for.
    ///
    /// # Errors
    /// [`StoreError::Memory`], or that of `fill`.
    pub(crate) fn fill<E: From<StoreError>>(
        &mut self,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut lent = lend(self.memory()?, self.lent.extent, bytes, &self.lent.bare)?;
        fill(lent.as_mut_slice())
    }

    /// Ends the loan of the memory: the object does not change any more. `None` if the store knows nothing of it.
    pub(crate) fn seal(mut self) -> Option<Sealed> {
        let object = self.lent.object;
        match self.from.take()? {
            BorrowedFrom::Host(host) => host.seal_here(object).map(Sealed::Here),
            BorrowedFrom::Agent { loan, .. } => Some(Sealed::There(loan)),
        }
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if let Some(BorrowedFrom::Host(host)) = self.from.take() {
            host.abort_here(self.lent.object);
        }
    }
}

/// Reserves the pages of these parts.
fn reserve(memory: &ExtentFile, bare: &[Extent]) -> Result<(), StoreError> {
    for part in bare {
        let length = usize::try_from(part.len_bytes).unwrap_or(usize::MAX);
        let reserved = memory.reserve(part.offset, length);
        reserved.map_err(|error| StoreError::Memory {
            why: error.to_string(),
        })?;
    }
    Ok(())
}

/// Borrows an extent that the store has noted as lent, after its pages are reserved.
///
/// # Errors
/// [`StoreError::Memory`].
pub(super) fn lend(
    memory: &Arc<ExtentFile>,
    extent: Extent,
    bytes: usize,
    bare: &[Extent],
) -> Result<LentExtent, StoreError> {
    let failed = |error: SegmentError| StoreError::Memory {
        why: error.to_string(),
    };
    if bytes as u64 > extent.len_bytes {
        return Err(StoreError::Memory {
            why: "the store has lent too little".to_owned(),
        });
    }
    reserve(memory, bare)?;
    // SAFETY: the store has lent the extent to this process alone, and it is read by nobody before it is sealed (STORE-1); the pages
    // that it did not have are reserved.
    unsafe { memory.lend(extent.offset, bytes) }.map_err(failed)
}
