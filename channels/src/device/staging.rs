//! Pinned host memory for copies, kept for reuse.
//!
//! The driver may wait for the device when it allocates or frees such memory. Therefore allocated pieces are kept.
//! Their sizes are powers of two, and each context keeps at most a fixed number of bytes.

use std::collections::BTreeMap;

use super::calls::Calls;
use super::error::DeviceError;
use super::pinned::Pinned;

/// The size of the smallest piece.
const PIECE_BYTES_MIN: usize = 1 << 12;

/// The maximum number of bytes that a context keeps.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// The free pieces, by size.
#[derive(Default)]
pub(super) struct Staging {
    free: BTreeMap<usize, Vec<Pinned>>,
    kept_bytes: usize,
}

impl Staging {
    /// Takes a kept piece with room for `bytes`, of the size class of `bytes`.
    pub(super) fn take(&mut self, bytes: usize) -> Option<Pinned> {
        let size = size_of_piece(bytes)?;
        let piece = self.free.get_mut(&size)?.pop()?;
        self.kept_bytes -= piece.capacity();
        Some(piece.of(bytes))
    }

    /// Keeps a piece if the limit allows it, else returns it, and the caller frees it.
    pub(super) fn keep(&mut self, piece: Pinned) -> Option<Pinned> {
        let (bytes, whole) = (piece.capacity(), size_of_piece(piece.capacity()));
        if whole != Some(bytes) || self.kept_bytes.saturating_add(bytes) > KEPT_BYTES_MAX {
            return Some(piece);
        }
        self.kept_bytes += bytes;
        self.free.entry(bytes).or_default().push(piece);
        None
    }

    /// Takes out all kept pieces.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Pinned> {
        self.kept_bytes = 0;
        std::mem::take(&mut self.free).into_values().flatten()
    }
}

/// The size of a piece with room for `bytes`, or `None` if pieces of that size are not kept.
fn size_of_piece(bytes: usize) -> Option<usize> {
    let size = bytes.checked_next_power_of_two()?.max(PIECE_BYTES_MIN);
    (size <= KEPT_BYTES_MAX).then_some(size)
}

/// Allocates a new piece with room for `bytes`.
pub(super) fn pinned(calls: &Calls, bytes: usize) -> Result<Pinned, DeviceError> {
    Ok(calls.pin(size_of_piece(bytes).unwrap_or(bytes))?.of(bytes))
}
