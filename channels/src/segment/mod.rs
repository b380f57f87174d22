//! Memory that channels live in: the heap, or an anonymous file that other processes can map.

mod header;
mod heap;
mod memfd;
#[cfg(feature = "named")]
mod named;
mod room;

use std::ptr::NonNull;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::SegmentError;
use crate::region::Region;

pub(crate) use room::tightest as room;

/// The first bytes of a segment are its own: magic, version, nonce.
pub const SEGMENT_HEADER_BYTES: usize = 64;

/// Where memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// This process only.
    Heap,
    /// A sealed `memfd`: shared by descriptor, nothing to leak in `/dev/shm`.
    Memfd,
    /// A name in `/dev/shm`, by the `shared_memory` crate (feature `named`).
    #[cfg(feature = "named")]
    Named,
}

/// Names a segment for another process of this host and user: plain data, so a channel's end can be made from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentId {
    /// The process that made it.
    pub pid: u32,
    /// Its descriptor there; below 0 where it has a name instead.
    pub fd: i32,
    /// Guards against a descriptor that has been reused.
    pub nonce: u64,
    /// Its length.
    pub len_bytes: u64,
}

/// Owned memory: 64-byte aligned, zeroed when made, valid until dropped.
trait Memory: Send + Sync {
    fn base(&self) -> NonNull<u8>;
    fn len_bytes(&self) -> usize;
    fn id(&self) -> Option<SegmentId>;
}

/// A piece of memory; clones share it, the last drop gives it back: unmaps it, and closes the maker's descriptor.
#[derive(Clone)]
pub struct Segment {
    memory: Arc<dyn Memory>,
}

impl Segment {
    /// Makes a zeroed segment. `len_bytes` includes [`SEGMENT_HEADER_BYTES`].
    ///
    /// # Errors
    /// [`SegmentError::System`] when the system has no memory or descriptor to give, [`SegmentError::NoMemory`] when it
    /// never will, with the limit.
    pub fn create(provider: Provider, len_bytes: usize) -> Result<Self, SegmentError> {
        let len_bytes = len_bytes.max(SEGMENT_HEADER_BYTES);
        if provider != Provider::Heap {
            // What the heap has no room for, the allocator refuses.
            room::check(provider, len_bytes)?;
        }
        let memory: Arc<dyn Memory> = match provider {
            Provider::Heap => Arc::new(heap::Heap::new(len_bytes)?),
            Provider::Memfd => Arc::new(memfd::Memfd::create(len_bytes)?),
            #[cfg(feature = "named")]
            Provider::Named => Arc::new(named::Named::create(len_bytes)?),
        };
        Ok(Segment { memory })
    }

    /// Maps a segment that another process of this host made.
    ///
    /// # Errors
    /// [`SegmentError::System`] when the process or descriptor is gone, [`SegmentError::Foreign`] when it is not
    /// the segment that was meant.
    pub fn open(id: &SegmentId) -> Result<Self, SegmentError> {
        if cfg!(miri) {
            // Miri has neither memfd nor the flags to open one.
            return Err(SegmentError::Foreign {
                pid: id.pid,
                what: "the machine is a model",
            });
        }
        #[cfg(feature = "named")]
        if id.fd == named::NAMED {
            let memory = Arc::new(named::Named::open(id)?);
            return Ok(Segment { memory });
        }
        Ok(Segment {
            memory: Arc::new(memfd::Memfd::open(id)?),
        })
    }

    /// The segment's name, by which it can be opened as long as its maker holds it; `None` on the heap.
    pub fn id(&self) -> Option<SegmentId> {
        self.memory.id()
    }

    /// Where memory for the same channel comes from: as this, or a memfd for who has the heap.
    pub(crate) fn provider(&self) -> Provider {
        #[cfg(feature = "named")]
        if self.id().is_some_and(|id| id.fd == named::NAMED) {
            return Provider::Named;
        }
        Provider::Memfd
    }

    /// Its length.
    pub fn len_bytes(&self) -> usize {
        self.memory.len_bytes()
    }

    /// A part of it, from a 64-byte boundary. Whoever has a region, a clone of it or a part of it, can write its every word,
    /// format it and attach ends to it. So this is the door to the bytes, and safe code does not pass it:
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
    /// Nothing that is reached by the region, its clones or its parts may go against how its bytes are used otherwise, in this
    /// process or by references that outlive the call: a channel's memory is formatted before any of its ends is attached, is
    /// written by its ends alone from then on, and the words of a protocol are accessed as that says. In new memory, and in
    /// memory that one protocol has to itself, that is so.
    #[allow(unsafe_code)] // the door
    pub unsafe fn region(&self, offset: usize, len: usize) -> Result<Region, SegmentError> {
        self.part(offset, len)
    }

    /// The way to [`region`](Self::region) within this crate, whose callers keep its promise.
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
