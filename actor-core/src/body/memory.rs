//! The memory of a body that arrives.

use bytes::{Buf, Bytes};
use selvedge_channels::payload::{PART_ALIGN, ShortBytes};
use selvedge_cluster::frame::PartMemory;

use super::pool::{self, POOLED_MIN};

/// The minimum length of a body that begins on a boundary for tensors, in bytes.
const ALIGNED_MIN: usize = 4096;

/// Memory that the receiver of a letter lends for its body.
pub trait LentMemory: Send {
    /// The memory: as many bytes as were announced, always the same.
    fn bytes(&self) -> &[u8];

    /// The memory, to be filled.
    fn bytes_mut(&mut self) -> &mut [u8];
}

/// The memory of a body that arrives: reserved for the length that was announced, and used as the bytes come; or lent by the
/// receiver of the body, and filled as they come.
#[derive(Debug)]
pub(crate) enum BodyMemory {
    /// A body of a few bytes, without memory of its own.
    Short(ShortBytes),
    Reserved(ReservedMemory),
    Lent(FilledMemory),
}

/// Memory of the process. A long body begins on a 64-byte boundary, so that its tensors can stay where they are.
#[derive(Debug, Default)]
pub(crate) struct ReservedMemory {
    bytes: Vec<u8>,
    /// The bytes before the boundary.
    skipped: usize,
}

/// Memory that was lent, and the number of bytes that are there.
pub(crate) struct FilledMemory {
    lent: Box<dyn LentMemory>,
    filled: usize,
}

/// The place of the next bytes of a body.
pub(crate) enum BodyRoom<'a> {
    /// Behind what the vector holds, within its capacity.
    Vector(&'a mut Vec<u8>),
    /// The slice. [`BodyMemory::filled`] is told of them.
    Slice(&'a mut [u8]),
}

impl BodyMemory {
    /// Memory that was lent.
    pub(crate) fn lent(lent: Box<dyn LentMemory>) -> Self {
        BodyMemory::Lent(FilledMemory { lent, filled: 0 })
    }

    /// The place of the next bytes.
    pub(crate) fn room(&mut self) -> BodyRoom<'_> {
        match self {
            // So few bytes are copied.
            BodyMemory::Short(_) => BodyRoom::Slice(&mut []),
            BodyMemory::Reserved(reserved) => BodyRoom::Vector(&mut reserved.bytes),
            BodyMemory::Lent(lent) => BodyRoom::Slice(lent.rest()),
        }
    }

    /// Notes bytes that were put into a slice.
    pub(crate) fn filled(&mut self, bytes: usize) {
        if let BodyMemory::Lent(lent) = self {
            lent.filled += bytes;
        }
    }
}

impl FilledMemory {
    fn rest(&mut self) -> &mut [u8] {
        self.lent.bytes_mut().get_mut(self.filled..).unwrap_or_default()
    }
}

impl std::fmt::Debug for FilledMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("FilledMemory").field(&self.filled).finish()
    }
}

impl Default for BodyMemory {
    fn default() -> Self {
        BodyMemory::Short(ShortBytes::new())
    }
}

impl PartMemory for BodyMemory {
    fn announced(bytes: usize) -> Option<Self> {
        let short = ShortBytes::new();
        match bytes <= short.inline_size() {
            true => Some(BodyMemory::Short(short)),
            false => ReservedMemory::announced(bytes).map(BodyMemory::Reserved),
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        match self {
            // Mostly all bytes come at once, for which a copy is shorter than an insertion.
            BodyMemory::Short(short) if short.is_empty() => *short = ShortBytes::from_slice(bytes),
            BodyMemory::Short(short) => short.extend_from_slice(bytes),
            BodyMemory::Reserved(reserved) => reserved.bytes.extend_from_slice(bytes),
            BodyMemory::Lent(lent) => {
                // There is room for the length that was announced, beyond which a body does not go.
                let rest = lent.rest();
                let put = rest.len().min(bytes.len());
                if let (Some(room), Some(bytes)) = (rest.get_mut(..put), bytes.get(..put)) {
                    room.copy_from_slice(bytes);
                }
                lent.filled += put;
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            BodyMemory::Short(short) => short.len(),
            BodyMemory::Reserved(reserved) => reserved.bytes.len() - reserved.skipped,
            BodyMemory::Lent(lent) => lent.filled,
        }
    }

    fn truncate(&mut self, bytes: usize) {
        match self {
            BodyMemory::Short(short) => short.truncate(bytes),
            BodyMemory::Reserved(reserved) => reserved.bytes.truncate(reserved.skipped + bytes),
            BodyMemory::Lent(lent) => lent.filled = lent.filled.min(bytes),
        }
    }

    fn held_bytes(&self) -> usize {
        match self {
            BodyMemory::Short(short) if short.spilled() => short.capacity(),
            BodyMemory::Short(_) => 0,
            BodyMemory::Reserved(reserved) => reserved.bytes.capacity(),
            BodyMemory::Lent(lent) => lent.lent.bytes().len(),
        }
    }
}

impl ReservedMemory {
    fn announced(bytes: usize) -> Option<Self> {
        let mut memory = ReservedMemory::default();
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
}

/// The memory of a long body in use.
struct PooledMemory(ReservedMemory);

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

impl AsRef<[u8]> for FilledMemory {
    fn as_ref(&self) -> &[u8] {
        self.lent.bytes().get(..self.filled).unwrap_or_default()
    }
}

impl From<BodyMemory> for Bytes {
    fn from(memory: BodyMemory) -> Self {
        let reserved = match memory {
            BodyMemory::Short(short) => return Bytes::copy_from_slice(&short),
            BodyMemory::Reserved(reserved) => reserved,
            BodyMemory::Lent(lent) => return Bytes::from_owner(lent),
        };
        let skipped = reserved.skipped;
        let mut bytes = match reserved.bytes.capacity() < POOLED_MIN {
            true => Bytes::from(reserved.bytes),
            false => Bytes::from_owner(PooledMemory(reserved)),
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
        for bytes in [100, ALIGNED_MIN, 1 << 20, POOLED_MIN + 1, POOLED_MIN] {
            let mut memory = BodyMemory::announced(bytes).unwrap();
            let BodyRoom::Vector(vector) = memory.room() else {
                panic!("it is reserved")
            };
            let begin = vector.as_ptr();
            memory.put(&vec![7; bytes / 2]);
            memory.put(&vec![8; bytes - bytes / 2]);
            assert_eq!(memory.len(), bytes);
            assert!(matches!(memory.room(), BodyRoom::Vector(vector) if vector.as_ptr() == begin));
            let whole = Bytes::from(memory);
            assert_eq!(whole.len(), bytes);
            assert!(bytes < ALIGNED_MIN || whole.as_ptr().addr().is_multiple_of(PART_ALIGN));
            assert!(whole[..bytes / 2].iter().all(|byte| *byte == 7));
            assert!(whole[bytes / 2..].iter().all(|byte| *byte == 8));
        }
        assert!(BodyMemory::announced(usize::MAX).is_none());
    }

    #[test]
    fn a_body_of_a_few_bytes_takes_no_memory_of_its_own() {
        for bytes in [0, 10, ShortBytes::new().inline_size()] {
            let mut memory = BodyMemory::announced(bytes).unwrap();
            memory.put(&vec![7; bytes + 5][5..]);
            assert_eq!((memory.len(), memory.held_bytes()), (bytes, 0));
            assert!(matches!(memory.room(), BodyRoom::Slice([])));
            memory.truncate(bytes / 2);
            assert_eq!(Bytes::from(memory), vec![7; bytes / 2]);
        }
    }

    struct Drawer(Vec<u8>);

    impl LentMemory for Drawer {
        fn bytes(&self) -> &[u8] {
            &self.0
        }

        fn bytes_mut(&mut self) -> &mut [u8] {
            &mut self.0
        }
    }

    #[test]
    fn memory_that_was_lent_is_filled_in_place_and_never_beyond_its_end() {
        let mut memory = BodyMemory::lent(Box::new(Drawer(vec![0; 6])));
        memory.put(b"ab");
        let BodyRoom::Slice(rest) = memory.room() else {
            panic!("it is lent")
        };
        rest[..3].copy_from_slice(b"xyz");
        memory.filled(3);
        assert_eq!((memory.len(), memory.held_bytes()), (5, 6));
        memory.truncate(3);
        memory.put(b"defg");
        assert_eq!(&Bytes::from(memory)[..], b"abxdef");
    }
}
