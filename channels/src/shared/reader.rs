//! The reading endpoint of a shared channel. Anything that it reads in the segment may have been written by a hostile
//! process.
#![allow(unsafe_code)] // lends slots

use std::sync::atomic::Ordering;

use super::SharedSpec;
use super::growth::Generation;
use super::layout::{MappedChannel, kind, slot};
use crate::error::{ChannelError, End};
use crate::fault::{Fault, Message};
use crate::fault_point;
use crate::kind::record::RecordsIn;
use crate::memory::region::Region;
use crate::memory::segment::SegmentId;
use crate::prefetch;
use crate::ring::cursor::{ReadCursor, Sight, freed};
use crate::wait::doorbell::Doorbell;

/// A reading endpoint of a shared channel. Dropping it releases every message, also future ones, so that it never holds
/// the writer back.
pub struct SharedReader {
    place: MappedChannel,
    cursor: ReadCursor,
    index: u32,
    writer_bell: Doorbell,
    grown: Option<Generation>,
    /// The place of the current message, once it was checked.
    found: Option<MessageArea>,
    /// The current message, if it is a fault.
    fault: Option<Fault>,
    /// The length of the last message in bytes, as a guess for the next one.
    last_bytes: usize,
    quiet: bool,
    /// The reading side of records, until the end gets its type.
    pub(crate) records: Option<Box<dyn RecordsIn>>,
}

/// The place of a message, after its header was checked.
#[derive(Clone, Copy)]
struct MessageArea {
    kind: u32,
    area: Area,
    offset: usize,
    len: usize,
}

#[derive(Clone, Copy)]
enum Area {
    Ring,
    Grown,
}

impl SharedReader {
    /// The number of this reading endpoint.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Attaches reading endpoint number `index` to the channel that `format` made in `region`.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`] if the region holds no such channel, or the channel no such reader;
    /// [`ChannelError::Attached`] if that reader has been attached before.
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
        let place = MappedChannel::attach(region, spec)?;
        place.claim(End::Reader(index))?;
        fault_point::at("reader: after the claim");
        Ok(SharedReader {
            place,
            cursor: ReadCursor::new(spec.slots as usize),
            index,
            writer_bell,
            grown: None,
            found: None,
            fault: None,
            last_bytes: 0,
            quiet: false,
            records: None,
        })
    }

    /// Has the end take over the records of its messages, which all have some.
    pub fn take_records(&mut self, records: Box<dyn RecordsIn>) {
        self.records = Some(records);
    }

    /// Claims the records of the next message (`SHM-5`).
    ///
    /// # Errors
    /// [`ChannelError::Closed`] if the writer has left: they are the writer's.
    pub(crate) fn claim_records(&self) -> Result<(), ChannelError> {
        let claimed = self.place.records_of(self.index)?.take(self.position());
        claimed.then_some(()).ok_or(ChannelError::Closed)
    }

    /// The number of readers.
    pub(crate) fn readers(&self) -> usize {
        self.place.spec.readers as usize
    }

    /// The number of the next message.
    #[inline]
    pub fn position(&self) -> u64 {
        self.cursor.number()
    }

    /// Whether the next message can be read.
    ///
    /// # Errors
    /// [`ChannelError::Closed`] if the writer has closed and no message is left, [`ChannelError::Poisoned`] if a peer
    /// has died and no message is left, [`ChannelError::Corrupt`] if the stamp is none that an honest writer leaves.
    #[inline]
    pub fn ready(&mut self) -> Result<bool, ChannelError> {
        if self.found.is_some() || self.look()? {
            return Ok(true);
        }
        // The writer stores its last stamp before it closes. So after a read of "closed", the second read of the stamp
        // sees the last one.
        match self.place.check_open() {
            Ok(()) => Ok(false),
            Err(ended) => {
                if self.look()? {
                    Ok(true)
                } else {
                    Err(ended)
                }
            }
        }
    }

    /// Checks that no peer is known to have died.
    ///
    /// # Errors
    /// [`ChannelError::Poisoned`].
    pub fn check_live(&self) -> Result<(), ChannelError> {
        self.place.check_live()
    }

    #[inline]
    fn look(&self) -> Result<bool, ChannelError> {
        let [stamp, ..] = self.place.words(self.cursor.slot())?;
        match self.cursor.look(stamp) {
            Sight::Ready => Ok(true),
            Sight::NotYet => Ok(false),
            Sight::Impossible => Err(ChannelError::Corrupt {
                what: "a stamp that is not this lap's nor the last one's",
            }),
        }
    }

    /// The next message, in place; `None` if it has not arrived. It stays there until [`release`](Self::release).
    ///
    /// # Errors
    /// The errors of [`ready`](Self::ready), and [`ChannelError::Segment`] if the memory of a grown channel cannot be
    /// mapped.
    #[inline]
    pub fn current(&mut self) -> Result<Option<Message<&[u8]>>, ChannelError> {
        if self.found.is_none() {
            if !self.ready()? {
                return Ok(None);
            }
            let found = self.find()?;
            self.fetch(found);
            self.last_bytes = found.len;
            self.found = Some(found);
            if found.kind != kind::VALUE {
                self.fault = self.read_fault(found)?;
            }
            fault_point::at("reader: with a message in hand");
        }
        self.seen().map(Some)
    }

    /// Polls the stamp of the next message: `true` if the message has arrived or the stamp is invalid.
    #[inline]
    pub(crate) fn peek(&self) -> bool {
        !matches!(self.look(), Ok(false))
    }

    /// Prefetches a payload that lies outside the stamp's line and is so short that readers usually read all of it.
    #[inline]
    fn fetch(&self, found: MessageArea) {
        if found.len > slot::INLINE_MAX
            && found.len <= prefetch::MAX_BYTES
            && let Ok(region) = self.region(found)
            && let Ok(first) = region.address(found.offset, found.len)
        {
            prefetch::to_read(first, found.len);
        }
    }

    /// The region that holds a message.
    #[inline]
    fn region(&self, found: MessageArea) -> Result<&Region, ChannelError> {
        match (found.area, &self.grown) {
            (Area::Ring, _) => Ok(&self.place.region),
            (Area::Grown, Some(grown)) => Ok(&grown.payloads),
            (Area::Grown, None) => Err(ChannelError::NoValue),
        }
    }

    /// The message that [`current`](Self::current) has found, until [`release`](Self::release).
    ///
    /// # Errors
    /// [`ChannelError::NoValue`] if it has found none.
    #[inline]
    pub fn seen(&self) -> Result<Message<&[u8]>, ChannelError> {
        let Some(found) = self.found else {
            return Err(ChannelError::NoValue);
        };
        if found.kind == kind::VALUE {
            return Ok(Ok(self.bytes(found)?));
        }
        let fault = self.fault.clone();
        fault.map(Err).ok_or(ChannelError::Corrupt {
            what: "a message of unknown kind",
        })
    }

    #[inline]
    fn bytes(&self, found: MessageArea) -> Result<&[u8], ChannelError> {
        let region = self.region(found)?;
        // SAFETY: the message is stamped and not yet passed by this cursor, so the writer does not touch it (RING-2);
        // offset and length were checked by `find` and are checked against the region again.
        Ok(unsafe { region.bytes(found.offset, found.len) }?)
    }

    /// Copies a fault out of its slot, once, so that it can be looked at often.
    #[cold]
    fn read_fault(&self, found: MessageArea) -> Result<Option<Fault>, ChannelError> {
        Ok(match found.kind {
            kind::CANCELLED => Some(Fault::cancelled()),
            kind::FAILED => Some(Fault::failed(self.bytes(found)?.to_vec(), None)),
            _ => None,
        })
    }

    /// Reads a slot's header, every number once, and checks it (`SHM-3`). Relaxed: the stamp has published the numbers.
    #[inline]
    fn find(&mut self) -> Result<MessageArea, ChannelError> {
        let slot = self.cursor.slot();
        let header = self.place.header(slot);
        let [_, meta, len] = self.place.words(slot)?;
        let (meta, len) = (meta.load(Ordering::Relaxed), len.load(Ordering::Relaxed));
        let (generation, kind) = ((meta >> 32) as u32, meta as u32);
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let (area, offset, fits) = if generation > 0 {
            let stride = self.generation(generation, header)?.stride;
            (Area::Grown, slot * stride, stride)
        } else if len <= slot::INLINE_MAX {
            (Area::Ring, header + slot::INLINE, slot::INLINE_MAX)
        } else {
            (Area::Ring, self.place.payload(slot), self.place.places.stride)
        };
        if len > fits {
            return Err(ChannelError::Corrupt {
                what: "a length above the slot's",
            });
        }
        Ok(MessageArea {
            kind,
            area,
            offset,
            len,
        })
    }

    /// The generation that a header names: the mapped one, or a newer one, which is mapped and replaces it.
    fn generation(&mut self, number: u32, header: usize) -> Result<&Generation, ChannelError> {
        let mapped = self.grown.as_ref().map_or(0, |grown| grown.number);
        if number < mapped {
            return Err(ChannelError::Corrupt {
                what: "a generation that went back",
            });
        }
        if number > mapped {
            let grown = self.map(number, header)?;
            fault_point::at("reader: after following growth");
            self.grown = Some(grown);
        }
        self.grown.as_ref().ok_or(ChannelError::NoValue)
    }

    #[cold]
    fn map(&self, number: u32, header: usize) -> Result<Generation, ChannelError> {
        let word = |offset| -> Result<u64, ChannelError> {
            let word = self.place.region.atomic_u64(header + offset)?;
            // Relaxed: the stamp has published the header.
            Ok(word.load(Ordering::Relaxed))
        };
        let pid_fd = word(slot::PID_FD)?;
        let id = SegmentId {
            pid: (pid_fd >> 32) as u32,
            fd: (pid_fd as u32).cast_signed(),
            nonce: word(slot::NONCE)?,
            len_bytes: word(slot::SEGMENT_LEN)?,
        };
        let opened = Generation::open(number, self.place.spec.slots, word(slot::STRIDE)?, id);
        // The segments of a writer that has closed or died are gone. The error is then that cause, not the failed
        // mapping. A shortage in this process is none of the writer's, and says nothing about its segments.
        opened.or_else(|error| match self.place.check_open() {
            Err(ChannelError::Closed) if error.is_shortage() => Err(error),
            open => open.and(Err(error)),
        })
    }

    /// Passes the next message, read or not, if it has arrived, and releases its slot.
    ///
    /// # Errors
    /// The errors of [`ready`](Self::ready).
    #[inline]
    pub fn release(&mut self) -> Result<(), ChannelError> {
        if self.found.take().is_none() && !self.ready()? {
            return Ok(());
        }
        self.fault = None;
        fault_point::at("reader: before letting go");
        self.cursor
            .pass(self.place.tail(self.index)?, &self.writer_bell, self.quiet);
        fault_point::at("reader: after letting go");
        Ok(())
    }
}

impl SharedReader {
    /// The length in bytes of the last message that `current` has found.
    #[inline]
    pub(crate) fn last_bytes(&self) -> usize {
        self.last_bytes
    }

    /// Turns quiet mode on or off. In quiet mode, a release does not wake a writer that waits for space; the call that
    /// turns the mode off does, with one fence for many messages.
    pub(crate) fn set_quiet(&mut self, quiet: bool) {
        self.quiet = quiet;
        if !quiet && let Ok(tail) = self.place.tail(self.index) {
            freed(tail, &self.writer_bell);
        }
    }
}

impl Drop for SharedReader {
    fn drop(&mut self) {
        if !self.place.is_own() {
            return;
        }
        if let Ok(claim) = self.place.records_of(self.index) {
            claim.end();
        }
        if let Ok(tail) = self.place.tail(self.index) {
            self.cursor.leave(tail, &self.writer_bell);
            fault_point::at("reader: after leaving");
            self.place.leave(End::Reader(self.index));
        }
    }
}
