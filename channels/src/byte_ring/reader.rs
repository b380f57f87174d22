//! The reading end of a byte ring.
#![allow(unsafe_code)] // copies from shared memory

use std::sync::atomic::Ordering;

use super::{PUBLISHED_BYTES, READ, RingMemory, WRITTEN, distance};
use crate::error::ChannelError;
use crate::memory::region::Region;

/// The reading end of a byte ring.
pub struct ByteReader {
    memory: RingMemory,
    read: u64,
}

impl ByteReader {
    /// The reading end of the ring in `region`, which was zeroed when it was made, and which has no other reader.
    ///
    /// # Errors
    /// [`ChannelError::InvalidSpec`] if the capacity, the region's length less [`BYTE_RING_HEADER`](super::BYTE_RING_HEADER), is no
    /// power of two.
    pub fn attach(region: Region) -> Result<Self, ChannelError> {
        Ok(ByteReader {
            memory: RingMemory::attach(region)?,
            read: 0,
        })
    }

    /// The number of bytes that can be read.
    #[inline]
    fn waiting(&self) -> Result<usize, ChannelError> {
        // SYNC bytes-written: pairs with the store in `ByteWriter::write`; those bytes were copied before.
        let written = self.memory.word(WRITTEN)?.load(Ordering::Acquire);
        distance(written, self.read, self.memory.capacity)
    }

    /// Whether there is something to read, be it an error.
    #[must_use]
    #[inline]
    pub fn has_bytes(&self) -> bool {
        !self.waiting().is_ok_and(|waiting| waiting == 0)
    }

    /// Appends at most `most` bytes to `into`, whose capacity must have room for them, and returns their number. The caller then
    /// [claims](Self::claim_writer) the writer's wake-up.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`] if the writer's number is none.
    #[inline]
    pub fn read(&mut self, into: &mut Vec<u8>, most: usize) -> Result<usize, ChannelError> {
        let count = self.waiting()?.min(most).min(into.capacity() - into.len());
        let mut left = count;
        while left > 0 {
            let now = left.min(PUBLISHED_BYTES);
            self.copy(into, now)?;
            left -= now;
            // SYNC bytes-read: pairs with the load in `ByteWriter::room`; the bytes were copied before.
            self.memory.word(READ)?.store(self.read, Ordering::Release);
        }
        Ok(count)
    }

    /// Appends `count` bytes that have been written to `into`, which has room for them.
    #[inline]
    fn copy(&mut self, into: &mut Vec<u8>, count: usize) -> Result<(), ChannelError> {
        let room = into.spare_capacity_mut();
        let mut done = 0;
        for (offset, len) in self.memory.pieces(self.read, count) {
            let bytes = self.memory.region.address(offset, len)?;
            let place = room.get_mut(done..done + len).unwrap_or_default();
            // SAFETY: `address` has checked that the bytes lie in the region, which `self` keeps mapped. They are the reader's
            // (BYTES-2), and have been written or were zeroed when the memory was made. `place` is as long, because `count` is at
            // most the room, and is memory of this process that the region does not overlap.
            unsafe { std::ptr::copy_nonoverlapping(bytes, place.as_mut_ptr().cast(), place.len()) };
            done += len;
        }
        let length = into.len() + done;
        // SAFETY: the bytes up to `length`, which is within the capacity, were initialised above.
        unsafe { into.set_len(length) };
        self.read += count as u64;
        Ok(())
    }

    /// Whether the writer sleeps until there is room, half of the ring is free, and the caller has to wake it.
    ///
    /// A reader that has read everything finds it free, so no writer is forgotten; and a writer is not woken for each small
    /// piece.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`] if the writer's number is none.
    #[inline]
    pub fn claim_writer(&self) -> Result<bool, ChannelError> {
        Ok(self.waiting()? <= self.memory.capacity / 2 && self.memory.writer_bell.claim())
    }

    /// Announces that the reader sleeps until bytes come. Returns `false`, and announces nothing, if there are some.
    #[must_use]
    #[inline]
    pub fn doze(&self) -> bool {
        self.memory.reader_bell.announce();
        let sleeps = !self.has_bytes();
        if !sleeps {
            self.memory.reader_bell.retract();
        }
        sleeps
    }

    /// Withdraws the announcement: the reader looks by itself, until it announces sleep again.
    pub fn look_out(&self) {
        self.memory.reader_bell.retract();
    }
}
