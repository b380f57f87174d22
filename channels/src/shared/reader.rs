//! A reading end. Everything it finds in the segment may have been written by a hostile process.
#![allow(unsafe_code)] // hands out slots

use super::growth::Generation;
use super::{BLOCKED, GONE, Place, SharedSpec, kind, slot};
use crate::doorbell::Doorbell;
use crate::error::ChannelError;
use crate::fault::{Fault, Message};
use crate::region::Region;
use crate::segment::SegmentId;
use std::sync::atomic::{Ordering, fence};

/// A reading end of a shared channel.
pub struct SharedReader {
    place: Place,
    index: u32,
    writer_bell: Doorbell,
    next: u64,
    grown: Option<Generation>,
    /// Where the current message lies, once checked.
    found: Option<Found>,
}

/// A message's checked place.
#[derive(Clone, Copy)]
struct Found {
    kind: u32,
    grown: bool,
    offset: usize,
    len: usize,
}

impl SharedReader {
    /// Reading end number `index` of the channel that `format` made in `region`.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`] when the region holds no channel, or the channel has no such reader.
    pub fn attach(
        region: Region,
        spec: &SharedSpec,
        index: u32,
        writer_bell: Doorbell,
    ) -> Result<Self, ChannelError> {
        if index >= spec.readers {
            return Err(ChannelError::Corrupt {
                what: "more readers than declared",
            });
        }
        let place = Place::attach(region, spec)?;
        Ok(SharedReader {
            place,
            index,
            writer_bell,
            next: 0,
            grown: None,
            found: None,
        })
    }

    /// Number of the next message.
    #[inline]
    pub fn position(&self) -> u64 {
        self.next
    }

    /// Whether the next message can be read.
    ///
    /// # Errors
    /// [`ChannelError::Closed`] when the writer has closed and nothing is left, [`ChannelError::Corrupt`] when the
    /// stamp is none that an honest writer leaves.
    #[inline]
    pub fn ready(&mut self) -> Result<bool, ChannelError> {
        let header = self.place.header(self.next);
        let cell = self.place.region.atomic_u64(header + slot::STAMP)?;
        // SYNC slot-published: pairs with the release store in `SharedWriter::put`.
        let stamp = cell.load(Ordering::Acquire);
        if stamp == self.next + 1 {
            return Ok(true);
        }
        if stamp > self.next + 1 {
            return Err(ChannelError::Corrupt {
                what: "a slot was overwritten before it was read",
            });
        }
        // The writer stamps before it closes, so what was written is read first.
        if self.place.is_closed()? && cell.load(Ordering::Acquire) != self.next + 1 {
            return Err(ChannelError::Closed);
        }
        Ok(false)
    }

    /// The next message in place; `None` when there is none yet. Stays until [`release`](Self::release).
    ///
    /// # Errors
    /// As [`ready`](Self::ready), and [`ChannelError::Segment`] when a grown channel's memory cannot be mapped.
    #[inline]
    pub fn current(&mut self) -> Result<Option<Message<&[u8]>>, ChannelError> {
        if self.found.is_none() {
            if !self.ready()? {
                return Ok(None);
            }
            self.found = Some(self.find()?);
        }
        self.seen().map(Some)
    }

    /// The message that `current` found before.
    #[inline]
    pub(crate) fn seen(&self) -> Result<Message<&[u8]>, ChannelError> {
        let found = self.found.ok_or(ChannelError::NoValue)?;
        let region = match (&self.grown, found.grown) {
            (Some(grown), true) => &grown.payload,
            _ => &self.place.region,
        };
        // SAFETY: stamped and not yet passed by this cursor, so the writer leaves it alone (SHM-2); offset and
        // length were checked by `find` and are checked against the region again.
        let bytes = unsafe { region.bytes(found.offset, found.len) }?;
        match found.kind {
            kind::VALUE => Ok(Ok(bytes)),
            kind::CANCELLED => Ok(Err(Fault::cancelled())),
            kind::FAILED => Ok(Err(Fault::failed(bytes.to_vec(), None))),
            _ => Err(ChannelError::Corrupt {
                what: "a message of unknown kind",
            }),
        }
    }

    /// Reads a header once and checks it (`SHM-4`).
    fn find(&mut self) -> Result<Found, ChannelError> {
        let header = self.place.header(self.next);
        let region = &self.place.region;
        let kind = region.atomic_u32(header + slot::KIND)?.load(Ordering::Relaxed);
        let generation = region
            .atomic_u32(header + slot::GENERATION)?
            .load(Ordering::Relaxed);
        let len = region.atomic_u64(header + slot::LEN)?.load(Ordering::Relaxed);
        let corrupt = ChannelError::Corrupt {
            what: "a length above the slot's",
        };
        let Ok(len) = usize::try_from(len) else {
            return Err(corrupt);
        };
        if len <= slot::INLINE_MAX {
            return Ok(Found {
                kind,
                grown: false,
                offset: header + slot::INLINE,
                len,
            });
        }
        if generation == 0 {
            let offset = self.place.payload + self.place.within(self.next, self.place.stride);
            return if len > self.place.stride {
                Err(corrupt)
            } else {
                Ok(Found {
                    kind,
                    grown: false,
                    offset,
                    len,
                })
            };
        }
        if self.grown.as_ref().is_none_or(|grown| grown.number != generation) {
            self.switch(generation, header)?;
        }
        let stride = self.grown.as_ref().map_or(0, |grown| grown.stride);
        if len > stride {
            return Err(corrupt);
        }
        Ok(Found {
            kind,
            grown: true,
            offset: self.place.within(self.next, stride),
            len,
        })
    }

    /// Maps the generation that a header names, and lets go of the last one.
    fn switch(&mut self, generation: u32, header: usize) -> Result<(), ChannelError> {
        if self.grown.as_ref().is_some_and(|grown| grown.number > generation) {
            return Err(ChannelError::Corrupt {
                what: "a generation went back",
            });
        }
        let word = |offset| -> Result<u64, ChannelError> {
            Ok(self
                .place
                .region
                .atomic_u64(header + offset)?
                .load(Ordering::Relaxed))
        };
        let pid_fd = word(slot::PID_FD)?;
        let id = SegmentId {
            pid: (pid_fd >> 32) as u32,
            fd: (pid_fd as u32).cast_signed(),
            nonce: word(slot::NONCE)?,
            len_bytes: word(slot::SEGMENT_LEN)?,
        };
        let grown = Generation::open(generation, self.place.spec.slots, word(slot::STRIDE)?, id)?;
        self.grown = Some(grown);
        Ok(())
    }

    /// Passes the next message, read or not, if it is there, and gives its slot back.
    ///
    /// # Errors
    /// As [`ready`](Self::ready).
    #[inline]
    pub fn release(&mut self) -> Result<(), ChannelError> {
        if self.found.take().is_none() && !self.ready()? {
            return Ok(());
        }
        self.next += 1;
        // SYNC slot-released: pairs with the acquire load in `SharedWriter::has_space`.
        self.place
            .region
            .atomic_u64(self.place.cursor(self.index))?
            .store(self.next, Ordering::Release);
        self.freed()
    }

    /// Wakes the writer if it waits for space.
    #[inline]
    fn freed(&self) -> Result<(), ChannelError> {
        // SYNC ring-blocked: pairs with the fence in `SharedWriter::has_space`.
        fence(Ordering::SeqCst);
        if self.place.region.atomic_u32(BLOCKED)?.load(Ordering::Relaxed) != 0 {
            self.writer_bell.ring();
        }
        Ok(())
    }
}

impl Drop for SharedReader {
    fn drop(&mut self) {
        if let Ok(cursor) = self.place.region.atomic_u64(self.place.cursor(self.index)) {
            // A writer that goes on counts no reader here any more; SYNC slot-released.
            cursor.store(GONE, Ordering::Release);
        }
        self.writer_bell.ring();
    }
}
