//! The writing end of a byte ring.
#![allow(unsafe_code)] // copies into shared memory

use std::io::IoSlice;
use std::sync::atomic::Ordering;

use super::{PUBLISHED_BYTES, READ, RingMemory, WRITTEN, distance};
use crate::error::ChannelError;
use crate::memory::region::Region;

/// The writing end of a byte ring.
pub struct ByteWriter {
    memory: RingMemory,
    written: u64,
    /// The number of bytes read, as last seen.
    read: u64,
}

impl ByteWriter {
    /// The writing end of the ring in `region`, which was zeroed when it was made, and which has no other writer.
    ///
    /// # Errors
    /// [`ChannelError::InvalidSpec`] if the capacity, the region's length less [`BYTE_RING_HEADER`](super::BYTE_RING_HEADER), is no
    /// power of two.
    pub fn attach(region: Region) -> Result<Self, ChannelError> {
        Ok(ByteWriter {
            memory: RingMemory::attach(region)?,
            written: 0,
            read: 0,
        })
    }

    /// The number of bytes for which there is room. At least `enough` of them are looked for.
    #[inline]
    fn room(&mut self, enough: usize) -> Result<usize, ChannelError> {
        let capacity = self.memory.capacity;
        let known = distance(self.written, self.read, capacity)?;
        if capacity - known >= enough {
            return Ok(capacity - known);
        }
        // SYNC bytes-read: pairs with the store in `ByteReader::read`; the reader has copied those bytes (BYTES-2).
        let read = self.memory.word(READ)?.load(Ordering::Acquire);
        let known = known - distance(read, self.read, known)?;
        self.read = read;
        Ok(capacity - known)
    }

    /// Whether there is room for `enough` bytes.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`] if the reader's number is none.
    #[inline]
    pub fn has_room(&mut self, enough: usize) -> Result<bool, ChannelError> {
        Ok(self.room(enough)? >= enough)
    }

    /// Copies as many of the bytes as there is room for, and returns their number. The caller then
    /// [claims](Self::claim_reader) the reader's wake-up.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`] if the reader's number is none.
    #[inline]
    pub fn write(&mut self, slices: &[IoSlice<'_>]) -> Result<usize, ChannelError> {
        let wanted = slices.iter().map(|slice| slice.len()).sum();
        let mut room = self.room(wanted)?;
        let (before, mut published) = (self.written, self.written);
        for slice in slices {
            let count = slice.len().min(room);
            for piece in slice.get(..count).unwrap_or_default().chunks(PUBLISHED_BYTES) {
                self.copy(piece)?;
                if self.written - published >= PUBLISHED_BYTES as u64 {
                    published = self.publish()?;
                }
            }
            room -= count;
        }
        if self.written != published {
            self.publish()?;
        }
        Ok((self.written - before) as usize)
    }

    /// Lets the reader see all bytes that were copied, and returns their number.
    #[inline]
    fn publish(&self) -> Result<u64, ChannelError> {
        // SYNC bytes-written: pairs with the load in `ByteReader::waiting`; the bytes were copied before.
        self.memory.word(WRITTEN)?.store(self.written, Ordering::Release);
        Ok(self.written)
    }

    /// Copies bytes for which there is room.
    #[inline]
    fn copy(&mut self, mut bytes: &[u8]) -> Result<(), ChannelError> {
        for (offset, len) in self.memory.pieces(self.written, bytes.len()) {
            let (now, rest) = bytes.split_at_checked(len).unwrap_or((bytes, &[]));
            let place = self.memory.region.address(offset, now.len())?;
            // SAFETY: `address` has checked that the place lies in the region, which `self` keeps mapped. These bytes are the
            // writer's (BYTES-2): `room` has seen that the reader is done with them. `bytes` is memory of this process that the
            // region does not overlap, because only its ends reach the region's bytes.
            unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), place, now.len()) };
            self.written += now.len() as u64;
            bytes = rest;
        }
        Ok(())
    }

    /// Whether the reader sleeps and the caller has to wake it.
    #[must_use]
    #[inline]
    pub fn claim_reader(&self) -> bool {
        self.memory.reader_bell.claim()
    }

    /// Announces that the writer sleeps until there is room for `enough` bytes, at most half of the ring. Returns `false`, and announces
    /// nothing, if there is room.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`] if the reader's number is none.
    pub fn doze(&mut self, enough: usize) -> Result<bool, ChannelError> {
        self.memory.writer_bell.announce();
        let sleeps = !self.has_room(enough)?;
        if !sleeps {
            self.memory.writer_bell.retract();
        }
        Ok(sleeps)
    }
}
