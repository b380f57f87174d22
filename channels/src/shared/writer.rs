//! The writing end.
#![allow(unsafe_code)] // writes into slots

use super::growth::{Generation, next_stride};
use super::{BLOCKED, CLOSED, GONE, Place, STATE, SharedSpec, kind, slot};
use crate::doorbell::Doorbell;
use crate::error::{ChannelError, EncodeError};
use crate::fault::{Fault, FaultKind};
use crate::payload::{Wire, encode};
use crate::region::Region;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// The writing end of a shared channel.
pub struct SharedWriter {
    place: Place,
    reader_bells: Vec<Doorbell>,
    next: u64,
    slowest: u64,
    grown: Option<Generation>,
    /// Outgrown generations with the number of the first message that is not in them.
    retired: Vec<(Generation, u64)>,
}

impl SharedWriter {
    /// The writing end of the channel that `format` made in `region`. `_bell` is rung by readers that free a slot.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`] when the region holds no channel.
    pub fn attach(
        region: Region,
        spec: &SharedSpec,
        _bell: Doorbell,
        reader_bells: Vec<Doorbell>,
    ) -> Result<Self, ChannelError> {
        let place = Place::attach(region, spec)?;
        Ok(SharedWriter {
            place,
            reader_bells,
            next: 0,
            slowest: 0,
            grown: None,
            retired: Vec::new(),
        })
    }

    /// Whether a write would succeed now.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`] when a reader's cursor is ahead of the writer.
    #[inline]
    pub fn has_space(&mut self) -> Result<bool, ChannelError> {
        let slots = u64::from(self.place.spec.slots);
        if self.next - self.slowest < slots {
            return Ok(true);
        }
        let mut space = self.look()?;
        if !space {
            self.blocked()?.store(1, Ordering::Relaxed);
            // SYNC ring-blocked: pairs with the fence in `SharedReader::freed`.
            fence(Ordering::SeqCst);
            space = self.look()?;
        }
        if space && self.blocked()?.load(Ordering::Relaxed) != 0 {
            self.blocked()?.store(0, Ordering::Relaxed);
        }
        Ok(space)
    }

    fn blocked(&self) -> Result<&AtomicU32, ChannelError> {
        Ok(self.place.region.atomic_u32(BLOCKED)?)
    }

    /// Looks at the cursors again.
    fn look(&mut self) -> Result<bool, ChannelError> {
        let slots = u64::from(self.place.spec.slots);
        let mut slowest = self.next;
        for reader in 0..self.place.spec.readers {
            // SYNC slot-released: pairs with the release store in `SharedReader::release`.
            let cursor = self
                .place
                .region
                .atomic_u64(self.place.cursor(reader))?
                .load(Ordering::Acquire);
            if cursor > self.next && cursor != GONE {
                return Err(ChannelError::Corrupt {
                    what: "a reader's cursor is ahead of the writer",
                });
            }
            slowest = slowest.min(cursor);
        }
        // A cursor that went back is a lie; believing it costs the liar's own messages, nothing else.
        self.slowest = self.slowest.max(slowest);
        let passed = self.slowest;
        self.retired.retain(|(_, end)| passed < *end);
        Ok(self.next - self.slowest < slots)
    }

    /// Writes a value; `false` when every slot is taken.
    ///
    /// # Errors
    /// [`ChannelError::TooLarge`] and [`ChannelError::Encode`] leave the channel as it was.
    #[inline]
    pub fn try_write<T: Wire>(&mut self, value: &T) -> Result<bool, ChannelError> {
        if !self.has_space()? {
            return Ok(false);
        }
        let encoded = encode(value)?;
        self.put(kind::VALUE, encoded.len_bytes(), |out| encoded.write_to(out))?;
        Ok(true)
    }

    /// Writes bytes that are a payload already (CHAN-15); `false` when every slot is taken.
    ///
    /// # Errors
    /// As [`try_write`](Self::try_write).
    pub fn try_write_bytes(&mut self, payload: &[u8]) -> Result<bool, ChannelError> {
        self.try_put_bytes(kind::VALUE, payload)
    }

    /// Writes a fault instead of a value; `false` when every slot is taken.
    ///
    /// # Errors
    /// As [`try_write`](Self::try_write).
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
        self.put(kind, bytes.len(), |out| {
            out.copy_from_slice(bytes);
            Ok(())
        })?;
        Ok(true)
    }

    /// Fills the next slot, which is known to be free, and publishes it.
    #[inline]
    fn put(
        &mut self,
        kind: u32,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), EncodeError>,
    ) -> Result<(), ChannelError> {
        if len as u64 > self.place.spec.max_bytes {
            return Err(ChannelError::TooLarge {
                need_bytes: len as u64,
                max_bytes: self.place.spec.max_bytes,
            });
        }
        let header = self.place.header(self.next);
        let generation = if len <= slot::INLINE_MAX {
            // SAFETY: the slot is free (has_space, SHM-2) and this is its only writer.
            fill(unsafe { self.place.region.bytes_mut(header + slot::INLINE, len) }?)?;
            0
        } else {
            self.fill_payload(len, fill)?
        };
        let region = &self.place.region;
        region
            .atomic_u32(header + slot::KIND)?
            .store(kind, Ordering::Relaxed);
        region
            .atomic_u32(header + slot::GENERATION)?
            .store(generation, Ordering::Relaxed);
        region
            .atomic_u64(header + slot::LEN)?
            .store(len as u64, Ordering::Relaxed);
        self.next += 1;
        // SYNC slot-published: pairs with the acquire load in `SharedReader::ready`.
        region
            .atomic_u64(header + slot::STAMP)?
            .store(self.next, Ordering::Release);
        self.reader_bells.iter().for_each(Doorbell::ring);
        Ok(())
    }

    /// Fills the payload area, growing it if need be; returns the generation.
    fn fill_payload(
        &mut self,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), EncodeError>,
    ) -> Result<u32, ChannelError> {
        let stride = self
            .grown
            .as_ref()
            .map_or(self.place.stride, |grown| grown.stride);
        if len > stride {
            self.grow(len, stride)?;
        }
        let Some(grown) = &self.grown else {
            let offset = self.place.payload + self.place.within(self.next, self.place.stride);
            // SAFETY: the slot is free (has_space, SHM-2), this is its only writer, and `len` is within its stride.
            fill(unsafe { self.place.region.bytes_mut(offset, len) }?)?;
            return Ok(0);
        };
        // SAFETY: as above; the generation's area has the same slots.
        fill(unsafe {
            grown
                .payload
                .bytes_mut(self.place.within(self.next, grown.stride), len)
        }?)?;
        let (region, header) = (&self.place.region, self.place.header(self.next));
        let pid_fd = u64::from(grown.id.pid) << 32 | u64::from(grown.id.fd.cast_unsigned());
        region
            .atomic_u64(header + slot::PID_FD)?
            .store(pid_fd, Ordering::Relaxed);
        region
            .atomic_u64(header + slot::NONCE)?
            .store(grown.id.nonce, Ordering::Relaxed);
        region
            .atomic_u64(header + slot::SEGMENT_LEN)?
            .store(grown.id.len_bytes, Ordering::Relaxed);
        region
            .atomic_u64(header + slot::STRIDE)?
            .store(grown.stride as u64, Ordering::Relaxed);
        Ok(grown.number)
    }

    fn grow(&mut self, len: usize, stride: usize) -> Result<(), ChannelError> {
        let stride = next_stride(len as u64, stride, self.place.spec.max_bytes)?;
        let number = self
            .grown
            .as_ref()
            .map_or(0, |grown| grown.number)
            .saturating_add(1);
        let grown = Generation::create(number, self.place.spec.slots, stride)?;
        if let Some(outgrown) = self.grown.replace(grown) {
            self.retired.push((outgrown, self.next));
        }
        Ok(())
    }

    /// Says that no message follows, and wakes the readers.
    pub fn close(&mut self) {
        if let Ok(state) = self.place.region.atomic_u32(STATE) {
            // SYNC ring-closed: pairs with the acquire load in `Place::is_closed`.
            state.store(CLOSED, Ordering::Release);
        }
        self.reader_bells.iter().for_each(Doorbell::ring);
    }
}

impl Drop for SharedWriter {
    fn drop(&mut self) {
        self.close();
    }
}
