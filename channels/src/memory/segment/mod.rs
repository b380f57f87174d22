//! Segments: the memory of channels, on the heap or in a file that other processes can map.

mod heap;

use std::ptr::NonNull;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::SegmentError;
use crate::memory::region::Region;

pub(crate) use crate::platform::room::tightest as room;
use crate::platform::segment as system;

/// The size of a segment's header in bytes: magic number, version and nonce.
pub const SEGMENT_HEADER_BYTES: usize = 64;

/// The kind of memory that a segment consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// The heap, for this process only.
    Heap,
    /// A sealed `memfd`: shared by descriptor, and nothing can leak in `/dev/shm`.
    Memfd,
    /// A file with a name in `/dev/shm`, through the `shared_memory` crate (feature `named`).
    #[cfg(feature = "named")]
    Named,
}

/// The identity of a segment, by which another process of this host and user opens it. It is plain data, so a channel's
/// endpoint can be made from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentId {
    /// The process that made the segment.
    pub pid: u32,
    /// The file descriptor in that process; below 0 if the segment has a name instead.
    pub fd: i32,
    /// A nonce, which guards against a descriptor that has been reused.
    pub nonce: u64,
    /// The length in bytes.
    pub len_bytes: u64,
}

/// Owned memory: 64-byte aligned, zeroed when made, valid until dropped.
pub(crate) trait Memory: Send + Sync {
    fn base(&self) -> NonNull<u8>;
    fn len_bytes(&self) -> usize;
    fn id(&self) -> Option<SegmentId>;
}

/// A piece of memory. Clones share it. The last drop releases it: unmaps it, and closes the descriptor in the process
/// that made it.
#[derive(Clone)]
pub struct Segment {
    memory: Arc<dyn Memory>,
}

impl Segment {
    /// Makes a zeroed segment. `len_bytes` includes [`SEGMENT_HEADER_BYTES`].
    ///
    /// # Errors
    /// [`SegmentError::System`] if the system has no memory or descriptor left; [`SegmentError::NoMemory`], with the
    /// limit, if the system can never provide that much; [`SegmentError::Unsupported`] if processes share no memory on
    /// this system.
    pub fn create(provider: Provider, len_bytes: usize) -> Result<Self, SegmentError> {
        let len_bytes = len_bytes.max(SEGMENT_HEADER_BYTES);
        let memory = match provider {
            Provider::Heap => Arc::new(heap::Heap::new(len_bytes)?),
            shared => system::create(shared, len_bytes)?,
        };
        Ok(Segment { memory })
    }

    /// Maps a segment that another process of this host made.
    ///
    /// # Errors
    /// [`SegmentError::System`] if the process or descriptor is gone, [`SegmentError::Foreign`] if the descriptor does
    /// not name the segment that was meant.
    pub fn open(id: &SegmentId) -> Result<Self, SegmentError> {
        Ok(Segment::of(system::open(id)?))
    }

    /// A segment over memory that the platform has mapped.
    pub(crate) fn of(memory: Arc<dyn Memory>) -> Self {
        Segment { memory }
    }

    /// The bytes that the tightest limit of this process leaves for a segment of a provider; without a limit [`u64::MAX`].
    #[doc(hidden)] // for the store of objects
    #[must_use]
    pub fn room_bytes(provider: Provider) -> u64 {
        room(provider).map_or(u64::MAX, |(_, bytes)| bytes)
    }

    /// The segment's identity, by which other processes can open it while its maker keeps it; `None` on the heap,
    /// and for a segment that was passed to this process.
    pub fn id(&self) -> Option<SegmentId> {
        self.memory.id()
    }

    /// The provider of further memory for the same channel: the provider of this segment, or a memfd if this segment
    /// lies on the heap.
    pub(crate) fn provider(&self) -> Provider {
        self.id().map_or(Provider::Memfd, |id| system::provider(&id))
    }

    /// The length in bytes.
    pub fn len_bytes(&self) -> usize {
        self.memory.len_bytes()
    }

    /// The part of `len` bytes at `offset`, which must be a multiple of 64. The owner of a region, of a clone of it or
    /// of a part of it can write every word in it, format it and attach endpoints to it. So this function, which gives
    /// access to the bytes, is `unsafe`, and safe code cannot call it:
    ///
    /// ```compile_fail
    /// use selvedge_channels::{Provider, Segment};
    ///
    /// let segment = Segment::create(Provider::Heap, 4096)?;
    /// let region = segment.region(64, 1024)?;
    /// region.atomic_u64(0)?;
    /// # Ok::<(), selvedge_channels::SegmentError>(())
    /// ```
    ///
    /// ```
    /// # use selvedge_channels::{Provider, Segment};
    /// # let segment = Segment::create(Provider::Heap, 4096)?;
    /// // SAFETY: the segment is new, and nothing else uses it.
    /// let region = unsafe { segment.region(64, 1024) }?;
    /// region.atomic_u64(0)?;
    /// # Ok::<(), selvedge_channels::SegmentError>(())
    /// ```
    ///
    /// # Errors
    /// [`SegmentError::OutOfBounds`].
    ///
    /// # Safety
    /// No access through the region, its clones or its parts may conflict with another use of the same bytes, in this
    /// process or through references that outlive the call. A channel's memory is formatted before any of its endpoints
    /// is attached, and is written only by its endpoints from then on. The words of a protocol are accessed as the
    /// protocol prescribes. New memory, and memory that one protocol has to itself, meet these conditions.
    #[allow(unsafe_code)] // gives access to the bytes
    pub unsafe fn region(&self, offset: usize, len: usize) -> Result<Region, SegmentError> {
        self.part(offset, len)
    }

    /// The form of [`region`](Self::region) for this crate. It is safe because a region gives safe access through atomics
    /// alone, and the protocols of this crate access each word with one width (`REG-2`): atomics of two widths on the same
    /// bytes would conflict. Its `bytes` and `bytes_mut` are unsafe, and their callers show that no other access conflicts.
    pub(crate) fn part(&self, offset: usize, len: usize) -> Result<Region, SegmentError> {
        Region::new(self.clone(), offset, len)
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.memory.base()
    }
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Segment")
            .field("len_bytes", &self.len_bytes())
            .field("id", &self.id())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    const LEN: usize = SEGMENT_HEADER_BYTES + 64;

    #[test]
    #[cfg_attr(
        any(selvedge_portable, not(target_os = "linux")),
        ignore = "it needs memory between processes"
    )]
    fn chan_08_a_segment_is_as_long_as_asked_for_aligned_and_all_zero() {
        let provider = if cfg!(miri) {
            Provider::Heap
        } else {
            Provider::Memfd
        };
        for provider in [Provider::Heap, provider] {
            let segment = Segment::create(provider, LEN).unwrap();
            assert!(segment.base().as_ptr().addr().is_multiple_of(64));
            assert_eq!(segment.len_bytes(), LEN);
            let len = LEN - SEGMENT_HEADER_BYTES;
            let region = segment.part(SEGMENT_HEADER_BYTES, len).unwrap();
            let words = (0..len).step_by(8);
            assert!(words.len() > 0);
            for at in words {
                assert_eq!(region.atomic_u64(at).unwrap().load(Ordering::Relaxed), 0, "{at}");
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no memfd")]
    #[cfg_attr(
        any(selvedge_portable, not(target_os = "linux")),
        ignore = "it needs memory between processes"
    )]
    fn chan_24_an_end_is_made_from_plain_data() {
        let maker = Segment::create(Provider::Memfd, LEN).unwrap();
        let bytes = postcard::to_allocvec(&maker.id().unwrap()).unwrap();
        let opened = Segment::open(&postcard::from_bytes(&bytes).unwrap()).unwrap();
        let word = |segment: &Segment| segment.part(SEGMENT_HEADER_BYTES, 64).unwrap();
        word(&maker).atomic_u64(8).unwrap().store(7, Ordering::Relaxed);
        assert_eq!(word(&opened).atomic_u64(8).unwrap().load(Ordering::Relaxed), 7);
        assert_eq!(opened.id(), maker.id());
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no memfd")]
    #[cfg_attr(
        any(selvedge_portable, not(target_os = "linux")),
        ignore = "it needs memory between processes"
    )]
    fn a_mapping_outlives_its_maker_but_cannot_be_opened_any_more() {
        let maker = Segment::create(Provider::Memfd, LEN).unwrap();
        let id = maker.id().unwrap();
        let opened = Segment::open(&id).unwrap();
        drop(maker);
        let region = opened.part(SEGMENT_HEADER_BYTES, 64).unwrap();
        region.atomic_u64(0).unwrap().store(1, Ordering::Relaxed);
        assert!(Segment::open(&id).is_err());
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no memfd")]
    #[cfg_attr(
        any(selvedge_portable, not(target_os = "linux")),
        ignore = "it needs memory between processes"
    )]
    fn what_is_not_the_segment_meant_is_refused() {
        let segment = Segment::create(Provider::Memfd, LEN).unwrap();
        let id = segment.id().unwrap();
        let wrong = [
            SegmentId {
                nonce: !id.nonce,
                ..id.clone()
            },
            SegmentId {
                len_bytes: id.len_bytes + 1,
                ..id.clone()
            },
            SegmentId {
                len_bytes: 8,
                ..id.clone()
            },
            SegmentId {
                len_bytes: u64::MAX,
                ..id.clone()
            },
            SegmentId {
                pid: u32::MAX,
                ..id.clone()
            },
            SegmentId { fd: -1, ..id.clone() },
        ];
        for id in wrong {
            assert!(Segment::open(&id).is_err(), "{id:?}");
        }
        // A pipe without a writer: opening it must not wait.
        let (reader, _writer) = std::io::pipe().unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&reader);
        assert!(matches!(
            Segment::open(&SegmentId { fd, ..id }),
            Err(SegmentError::Foreign { .. })
        ));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not run out of memory as a machine does")]
    #[cfg_attr(
        any(selvedge_portable, not(target_os = "linux")),
        ignore = "it needs memory between processes"
    )]
    fn chan_09_a_segment_that_cannot_be_had_is_an_error() {
        for provider in [Provider::Heap, Provider::Memfd] {
            for len_bytes in [usize::MAX, isize::MAX as usize, 1 << 60] {
                let refused = Segment::create(provider, len_bytes);
                assert!(
                    matches!(
                        refused,
                        Err(SegmentError::System { .. } | SegmentError::NoMemory { .. })
                    ),
                    "{provider:?} {len_bytes}"
                );
            }
        }
    }
}
