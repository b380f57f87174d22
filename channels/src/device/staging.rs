//! Pinned memory of the host that copies go through, kept for the next ones.
//!
//! To take such memory from the driver, and to give it back, may wait for the device; so what has been taken is kept, in pieces of
//! powers of two, up to a limit for each context.

use std::collections::BTreeMap;

use super::allocation::Pinned;
use super::calls::Calls;
use super::error::DeviceError;

/// Smallest piece.
const PIECE_BYTES_MIN: usize = 1 << 12;

/// Most that a context keeps.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// Pieces that nobody uses, by size.
#[derive(Default)]
pub(super) struct Staging {
    free: BTreeMap<usize, Vec<Pinned>>,
    kept_bytes: usize,
}

impl Staging {
    /// A kept piece of so many bytes at least, not many times larger.
    pub(super) fn take(&mut self, bytes: usize) -> Option<Pinned> {
        let size = size_of_piece(bytes)?;
        let piece = self.free.get_mut(&size)?.pop()?;
        self.kept_bytes -= piece.capacity();
        Some(piece.of(bytes))
    }

    /// Keeps a piece, if there is room; else it is to be given to the driver.
    pub(super) fn keep(&mut self, piece: Pinned) -> Option<Pinned> {
        let (bytes, whole) = (piece.capacity(), size_of_piece(piece.capacity()));
        if whole != Some(bytes) || self.kept_bytes.saturating_add(bytes) > KEPT_BYTES_MAX {
            return Some(piece);
        }
        self.kept_bytes += bytes;
        self.free.entry(bytes).or_default().push(piece);
        None
    }

    /// All that is kept.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Pinned> {
        self.kept_bytes = 0;
        std::mem::take(&mut self.free).into_values().flatten()
    }
}

/// Bytes of the piece that so many bytes go into; `None` where such pieces are not kept.
fn size_of_piece(bytes: usize) -> Option<usize> {
    let size = bytes.checked_next_power_of_two()?.max(PIECE_BYTES_MIN);
    (size <= KEPT_BYTES_MAX).then_some(size)
}

/// A new piece that so many bytes go into.
pub(super) fn pinned(calls: &Calls, bytes: usize) -> Result<Pinned, DeviceError> {
    Ok(calls.pin(size_of_piece(bytes).unwrap_or(bytes))?.of(bytes))
}
