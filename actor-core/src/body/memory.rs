//! The memory of a body that arrives.

use bytes::{Buf, Bytes};
use selvedge_channels::payload::PART_ALIGN;
use selvedge_cluster::frame::PartMemory;

use super::pool::{self, POOLED_MIN};

/// The minimum length of a body that begins on a boundary for tensors, in bytes.
const ALIGNED_MIN: usize = 4096;

/// The memory of a body that arrives: reserved for the length that was announced, and used as the bytes come. A long body
/// begins on a 64-byte boundary, so that its tensors can stay where they are.
#[derive(Debug, Default)]
pub(crate) struct BodyMemory {
    bytes: Vec<u8>,
    /// The bytes before the boundary.
    skipped: usize,
}

impl BodyMemory {
    /// The vector to which the next bytes are added, within its capacity.
    pub(crate) fn vec(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

impl PartMemory for BodyMemory {
    fn announced(bytes: usize) -> Option<Self> {
        let mut memory = BodyMemory::default();
        if bytes < ALIGNED_MIN {
            memory.bytes.try_reserve_exact(bytes).ok()?;
            return Some(memory);
        }
        let room = bytes.checked_add(PART_ALIGN)?;
        if room < POOLED_MIN {
            memory.bytes.try_reserve_exact(room).ok()?;
        } else {
            memory.bytes = pool::memory_of(room)?;
        }
        memory.skipped = memory.bytes.as_ptr().addr().wrapping_neg() % PART_ALIGN;
        memory.bytes.resize(memory.skipped, 0);
        Some(memory)
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn len(&self) -> usize {
        self.bytes.len() - self.skipped
    }

    fn truncate(&mut self, bytes: usize) {
        self.bytes.truncate(self.skipped + bytes);
    }

    fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

/// The memory of a long body in use.
struct PooledMemory(BodyMemory);

impl AsRef<[u8]> for PooledMemory {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes
    }
}

impl Drop for PooledMemory {
    fn drop(&mut self) {
        pool::keep(std::mem::take(&mut self.0.bytes));
    }
}

impl From<BodyMemory> for Bytes {
    fn from(memory: BodyMemory) -> Self {
        let skipped = memory.skipped;
        let mut bytes = match memory.bytes.capacity() < POOLED_MIN {
            true => Bytes::from(memory.bytes),
            false => Bytes::from_owner(PooledMemory(memory)),
        };
        bytes.advance(skipped);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_bodies_begin_on_a_boundary_and_stay_where_they_are() {
        for bytes in [0, 10, ALIGNED_MIN, 1 << 20, POOLED_MIN + 1, POOLED_MIN] {
            let mut memory = BodyMemory::announced(bytes).unwrap();
            let begin = memory.vec().as_ptr();
            memory.put(&vec![7; bytes / 2]);
            memory.put(&vec![8; bytes - bytes / 2]);
            assert_eq!((memory.len(), memory.vec().as_ptr()), (bytes, begin));
            let whole = Bytes::from(memory);
            assert_eq!(whole.len(), bytes);
            assert!(bytes < ALIGNED_MIN || whole.as_ptr().addr().is_multiple_of(PART_ALIGN));
            assert!(whole[..bytes / 2].iter().all(|byte| *byte == 7));
            assert!(whole[bytes / 2..].iter().all(|byte| *byte == 8));
        }
        assert!(BodyMemory::announced(usize::MAX).is_none());
    }
}
