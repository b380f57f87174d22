//! The writing endpoint of a shared channel.
#![allow(unsafe_code)] // writes into slots

use std::any::TypeId;
use std::sync::atomic::Ordering;

use super::SharedSpec;
use super::bypass::Bypass;
use super::growth::{Generation, next_stride};
use super::layout::{MappedChannel, kind, slot};
use super::record_claim::RecordClaim;
use crate::error::{ChannelError, EncodeError, End};
use crate::fault::{Fault, FaultKind};
use crate::fault_point;
use crate::kind::record::RecordsOut;
use crate::memory::region::Region;
use crate::payload::{Encoded, Way, Whole, Wire, encode_as, is_plain, way_of, write_short};
use crate::ring::cursor::{Ahead, WriteCursor};
use crate::wait::doorbell::Doorbell;

/// The writing endpoint of a shared channel. Dropping it closes the channel.
pub struct SharedWriter {
    place: MappedChannel,
    cursor: WriteCursor,
    reader_bells: Vec<Doorbell>,
    grown: Option<Generation>,
    quiet: bool,
    /// The length of the last message in bytes, as a guess for the next one.
    last_bytes: usize,
    /// The encoding that was chosen for the last value, with the type of that value.
    way: Option<(TypeId, Way)>,
    /// Outgrown generations, each with the number of the first message that is not in it (`SHM-2`).
    retired: Vec<(Generation, u64)>,
    /// The writing side of records, until the end gets its type.
    pub(crate) records: Option<Box<dyn RecordsOut>>,
    bypass: Option<Bypass>,
}

/// A place in the next slot, for a message that is not published yet. It is valid for that message only.
#[derive(Debug)]
pub(crate) struct Lent {
    number: u64,
    generation: u32,
    offset: usize,
    len: usize,
}

impl From<Ahead> for ChannelError {
    fn from(_: Ahead) -> Self {
        ChannelError::Corrupt {
            what: "a reader's tail is ahead of the writer",
        }
    }
}

impl SharedWriter {
    /// Attaches the writing endpoint to the channel that `format` made in `region`.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`] if the region holds no such channel, [`ChannelError::Attached`] if the channel has, or
    /// had, a writer.
    pub fn attach(
        region: Region,
        spec: &SharedSpec,
        reader_bells: Vec<Doorbell>,
    ) -> Result<Self, ChannelError> {
        let place = MappedChannel::attach(region, spec)?;
        place.claim(End::Writer)?;
        fault_point::at("writer: after the claim");
        Ok(SharedWriter {
            place,
            cursor: WriteCursor::new(spec.slots as usize, spec.readers as usize),
            reader_bells,
            grown: None,
            quiet: false,
            last_bytes: 0,
            way: None,
            retired: Vec::new(),
            records: None,
            bypass: None,
        })
    }

    /// Has long values take a bypass from now on, whose other handle the only reader has.
    pub fn take_bypass(&mut self, bypass: Bypass) {
        self.bypass = Some(bypass);
    }

    /// Has the end make records for its messages, which all have some from now on.
    pub fn make_records(&mut self, records: Box<dyn RecordsOut>) {
        self.records = Some(records);
    }

    /// The number of the next message.
    #[inline]
    pub fn position(&self) -> u64 {
        self.cursor.number()
    }

    /// The number of messages that every reader has released, as far as the writer knows.
    pub fn passed(&self) -> u64 {
        self.cursor.passed()
    }

    /// The number of slots.
    pub fn slots(&self) -> usize {
        self.place.spec.slots as usize
    }

    /// The number of readers.
    pub fn readers(&self) -> usize {
        self.place.spec.readers as usize
    }

    /// The length of the last message in bytes.
    #[inline]
    pub(crate) fn last_bytes(&self) -> usize {
        self.last_bytes
    }

    /// Whether a write would succeed now.
    ///
    /// # Errors
    /// If there is no space: [`ChannelError::Poisoned`] if a peer has died, [`ChannelError::Closed`], and
    /// [`ChannelError::Corrupt`] if a reader's tail is ahead of the writer.
    #[inline]
    pub fn has_space(&mut self) -> Result<bool, ChannelError> {
        if self.cursor.has_space() && self.retired.is_empty() {
            return Ok(true);
        }
        self.seek()
    }

    /// Whether every reader is done with every message.
    ///
    /// # Errors
    /// [`ChannelError::Poisoned`] if a reader is not done and a peer has died, [`ChannelError::Corrupt`] if a reader's
    /// tail is ahead of the writer.
    pub fn is_drained(&mut self) -> Result<bool, ChannelError> {
        let (place, cursor) = (&self.place, &mut self.cursor);
        let tails = || (0..place.spec.readers).filter_map(|reader| place.tail(reader).ok());
        let drained = cursor.drained(tails)?;
        if !drained {
            place.check_live()?;
        }
        Ok(drained)
    }

    /// Checks that no peer is known to have died.
    ///
    /// # Errors
    /// [`ChannelError::Poisoned`].
    pub fn check_live(&self) -> Result<(), ChannelError> {
        self.place.check_live()
    }

    /// Reads the tails of the readers, and releases the generations that all readers have passed. Returns whether there
    /// is space.
    fn seek(&mut self) -> Result<bool, ChannelError> {
        let (place, cursor) = (&self.place, &mut self.cursor);
        let tails = || (0..place.spec.readers).filter_map(|reader| place.tail(reader).ok());
        let space = cursor.seek(tails)?;
        let passed = cursor.passed();
        self.retired.retain(|(_, end)| passed < *end);
        if !space {
            place.check_open()?;
            if cursor.is_closed() {
                return Err(ChannelError::Closed);
            }
        }
        Ok(space)
    }

    /// Writes a value; returns `false` if no slot is free.
    ///
    /// # Errors
    /// [`ChannelError::TooLarge`], [`ChannelError::Encode`] and [`ChannelError::Segment`] leave the channel unchanged.
    /// The other errors are those of [`has_space`](Self::has_space).
    #[inline]
    pub fn try_write<T: Wire>(&mut self, value: &T) -> Result<bool, ChannelError> {
        if !self.has_space()? {
            return Ok(false);
        }
        if std::mem::needs_drop::<T>() || !self.put_short(value)? {
            self.put_long(value)?;
        }
        Ok(true)
    }

    /// Writes `value` if a slot is free and it can be encoded, else returns it; `try_write` tells why (`FAST-1`).
    #[inline]
    pub(crate) fn try_put<T: Wire>(&mut self, value: T) -> Option<T> {
        match self.try_write(&value) {
            Ok(true) => None,
            Ok(false) | Err(_) => Some(value),
        }
    }

    /// Writes bytes that are already an encoded payload; returns `false` if no slot is free.
    ///
    /// # Errors
    /// The errors of [`try_write`](Self::try_write).
    pub fn try_write_bytes(&mut self, payload: &[u8]) -> Result<bool, ChannelError> {
        self.try_put_bytes(kind::VALUE, payload)
    }

    /// Writes a fault in the place of a value; returns `false` if no slot is free.
    ///
    /// # Errors
    /// The errors of [`try_write`](Self::try_write).
    pub fn try_write_fault(&mut self, fault: &Fault) -> Result<bool, ChannelError> {
        match fault.kind() {
            FaultKind::Cancelled => self.try_put_bytes(kind::CANCELLED, &[]),
            FaultKind::Failed => self.try_put_bytes(kind::FAILED, fault.report()),
        }
    }

    fn try_put_bytes(&mut self, kind: u32, bytes: &[u8]) -> Result<bool, ChannelError> {
        if !self.has_space()? {
            return Ok(false);
        }
        self.put_bytes(kind, bytes)?;
        Ok(true)
    }

    #[inline]
    fn put_long<T: Wire>(&mut self, value: &T) -> Result<(), ChannelError> {
        if let Some(whole) = Whole::of(value) {
            return self.put(kind::VALUE, whole.len_bytes(), |out| whole.write_to(out));
        }
        let way = self.way::<T>();
        let encoded = encode_as(value, || way, true)?;
        if let (Way::Packed(_), true) = (way, encoded.is_named()) {
            self.way = None;
        }
        match self.bypass.clone() {
            Some(bypass) if Bypass::is_for(encoded.shared_bytes()) => self.put_beside(&bypass, encoded),
            _ => self.put(kind::VALUE, encoded.len_bytes(), |out| encoded.write_to(out)),
        }
    }

    /// Sends a value by the bypass, and publishes an empty message for it (`SHM-6`).
    fn put_beside(&mut self, bypass: &Bypass, value: Encoded<'_>) -> Result<(), ChannelError> {
        let bytes = value.len_bytes();
        self.check_length(bytes)?;
        let lent = self.lend(0)?;
        bypass.put(lent.number, value.into_segments()?);
        let published = self.publish_as(kind::VALUE, &lent);
        match published {
            Ok(()) => self.last_bytes = bytes,
            Err(_) => drop(bypass.take(lent.number)),
        }
        published
    }

    /// The encoding for values of type `T`.
    #[inline]
    fn way<T: Wire>(&mut self) -> Way {
        let id = TypeId::of::<T>();
        match self.way {
            Some((known, way)) if known == id => way,
            _ => self.way.insert((id, way_of::<T>())).1,
        }
    }

    /// Writes a value that fits into the cache line of its stamp; returns `false` for other values, and publishes
    /// nothing then.
    #[inline]
    fn put_short<T: Wire>(&mut self, value: &T) -> Result<bool, ChannelError> {
        // Numbers need no choice of encoding.
        let way = if is_plain::<T>() {
            Way::Named
        } else {
            self.way::<T>()
        };
        let cap = usize::try_from(self.place.spec.max_bytes).unwrap_or(usize::MAX);
        let mut lent = self.lend(slot::INLINE_MAX.min(cap))?;
        fault_point::at("writer: before the fill");
        let Some(len) = write_short(value, || way, self.lent_mut(&lent)?) else {
            return Ok(false);
        };
        lent.len = len?;
        fault_point::at("writer: after the fill");
        self.publish_as(kind::VALUE, &lent)?;
        Ok(true)
    }

    #[inline]
    fn put_bytes(&mut self, kind: u32, bytes: &[u8]) -> Result<(), ChannelError> {
        self.put(kind, bytes.len(), |out| {
            // `out` is as long as `bytes`.
            out.copy_from_slice(bytes);
            Ok(())
        })
    }

    /// Writes an encoded value behind `front` into the next slot, which must be free.
    pub(crate) fn put_behind(&mut self, front: &[u8], value: &Encoded<'_>) -> Result<(), ChannelError> {
        let len = front.len().saturating_add(value.len_bytes());
        self.put(kind::VALUE, len, |out| {
            match out.split_at_mut_checked(front.len()) {
                Some((before, behind)) => {
                    before.copy_from_slice(front);
                    value.write_to(behind)
                }
                None => Err(EncodeError::Buffer {
                    need_bytes: len,
                    have_bytes: out.len(),
                }),
            }
        })
    }

    /// The readers that have left, each with the number of messages whose records are settled (`SHM-5`).
    pub(crate) fn left(&self) -> Vec<(u32, u64)> {
        self.claims(|claim| claim.ended())
    }

    /// Leaves the records of each reader's further messages to this end (`SHM-5`).
    pub(crate) fn end_claims(&self) -> Vec<(u32, u64)> {
        self.claims(|claim| Some(claim.end()))
    }

    fn claims(&self, look: impl Fn(RecordClaim<'_>) -> Option<u64>) -> Vec<(u32, u64)> {
        let seen = |reader| Some((reader, look(self.place.records_of(reader).ok()?)?));
        (0..self.place.spec.readers).filter_map(seen).collect()
    }

    /// Fills the next slot, which must be free, and publishes it.
    #[inline]
    fn put(
        &mut self,
        kind: u32,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), EncodeError>,
    ) -> Result<(), ChannelError> {
        let lent = self.lend(len)?;
        fault_point::at("writer: before the fill");
        fill(self.lent_mut(&lent)?)?;
        fault_point::at("writer: after the fill");
        self.publish_as(kind, &lent)
    }

    /// Lends the place for `len` bytes in the next slot, which must be free.
    #[inline]
    pub(crate) fn lend(&mut self, len: usize) -> Result<Lent, ChannelError> {
        self.check_length(len)?;
        let slot = self.cursor.slot();
        let (generation, offset) = if len <= slot::INLINE_MAX {
            (0, self.place.header(slot) + slot::INLINE)
        } else if len <= self.place.places.stride {
            (0, self.place.payload(slot))
        } else {
            let grown = self.grown_for(len)?;
            (grown.number, slot * grown.stride)
        };
        Ok(Lent {
            number: self.cursor.number(),
            generation,
            offset,
            len,
        })
    }

    #[inline]
    fn check_length(&self, len: usize) -> Result<(), ChannelError> {
        let (need_bytes, max_bytes) = (len as u64, self.place.spec.max_bytes);
        match need_bytes > max_bytes {
            true => Err(ChannelError::TooLarge {
                need_bytes,
                max_bytes,
            }),
            false => Ok(()),
        }
    }

    /// The region of a lent place, if the place still belongs to the next message.
    #[inline]
    fn area(&self, lent: &Lent) -> Result<&Region, ChannelError> {
        if lent.number != self.cursor.number() {
            return Err(ChannelError::NoValue);
        }
        match &self.grown {
            _ if lent.generation == 0 => Ok(&self.place.region),
            Some(grown) if grown.number == lent.generation => Ok(&grown.payloads),
            _ => Err(ChannelError::NoValue),
        }
    }

    /// The bytes of a lent place.
    #[inline]
    pub(crate) fn lent(&self, lent: &Lent) -> Result<&[u8], ChannelError> {
        // SAFETY: the slot is free in every generation (has_space, RING-3) until this message is published, and its only
        // writer (SHM-1) is borrowed.
        Ok(unsafe { self.area(lent)?.bytes(lent.offset, lent.len) }?)
    }

    /// The bytes of a lent place, for writing.
    #[inline]
    pub(crate) fn lent_mut(&mut self, lent: &Lent) -> Result<&mut [u8], ChannelError> {
        // SAFETY: as in `lent`, and the writer is borrowed exclusively.
        Ok(unsafe { self.area(lent)?.bytes_mut(lent.offset, lent.len) }?)
    }

    /// Publishes the value that was written to a lent place.
    pub(crate) fn publish_lent(&mut self, lent: &Lent) -> Result<(), ChannelError> {
        self.publish_as(kind::VALUE, lent)
    }

    #[inline]
    fn publish_as(&mut self, kind: u32, lent: &Lent) -> Result<(), ChannelError> {
        self.area(lent)?;
        if lent.generation > 0 {
            let header = self.place.header(self.cursor.slot());
            let Some(grown) = self.grown.as_ref() else {
                return Err(ChannelError::NoValue);
            };
            let pid_fd = u64::from(grown.id.pid) << 32 | u64::from(grown.id.fd.cast_unsigned());
            let words = [
                (slot::PID_FD, pid_fd),
                (slot::NONCE, grown.id.nonce),
                (slot::SEGMENT_LEN, grown.id.len_bytes),
                (slot::STRIDE, grown.stride as u64),
            ];
            for (offset, word) in words {
                let word_at = self.place.region.atomic_u64(header + offset)?;
                // Relaxed: the stamp publishes the header.
                word_at.store(word, Ordering::Relaxed);
            }
        }
        let [stamp, meta, len] = self.place.words(self.cursor.slot())?;
        let kind_and_generation = u64::from(lent.generation) << 32 | u64::from(kind);
        // Relaxed: the stamp publishes the header.
        meta.store(kind_and_generation, Ordering::Relaxed);
        // Relaxed: see above.
        len.store(lent.len as u64, Ordering::Relaxed);
        self.last_bytes = lent.len;
        fault_point::at("writer: before the stamp");
        self.cursor.publish(stamp);
        fault_point::at("writer: after the stamp");
        if !self.quiet {
            Doorbell::ring_all(&self.reader_bells);
        }
        fault_point::at("writer: after the bells");
        Ok(())
    }

    /// The current generation, replaced by a larger one if `len` bytes do not fit.
    fn grown_for(&mut self, len: usize) -> Result<&Generation, ChannelError> {
        let (number, stride) = self
            .grown
            .as_ref()
            .map_or((0, self.place.places.stride), |grown| {
                (grown.number, grown.stride)
            });
        if len > stride {
            let spec = &self.place.spec;
            let stride = next_stride(len as u64, stride, spec.max_bytes)?;
            let number = number.checked_add(1).ok_or(ChannelError::Corrupt {
                what: "more generations than numbers",
            })?;
            let grown = Generation::create(self.place.region.provider(), number, spec.slots, stride)?;
            fault_point::at("writer: after growing");
            if let Some(outgrown) = self.grown.replace(grown) {
                self.retired.push((outgrown, self.cursor.number()));
                self.seek()?;
            }
        }
        self.grown.as_ref().ok_or(ChannelError::Full)
    }

    /// Whether the end belongs to this process, and is not the copy that a forked child has of its parent's.
    pub(crate) fn is_own(&self) -> bool {
        self.place.is_own()
    }

    /// Turns quiet mode on or off. In quiet mode, a message does not wake sleeping readers; the call that turns the
    /// mode off does, with one fence for many messages.
    pub(crate) fn set_quiet(&mut self, quiet: bool) {
        self.quiet = quiet;
        if !quiet {
            Doorbell::ring_all(&self.reader_bells);
        }
    }

    /// Closes the channel: no message follows. Wakes the readers and never waits. A second call changes nothing. Later
    /// writes are refused.
    pub fn close(&mut self) {
        self.cursor.close();
        self.place.close();
        fault_point::at("writer: after closing");
        Doorbell::ring_all(&self.reader_bells);
    }
}

impl Drop for SharedWriter {
    fn drop(&mut self) {
        if !self.place.is_own() {
            return;
        }
        self.close();
        self.place.leave(End::Writer);
    }
}
