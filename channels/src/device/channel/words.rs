//! Synchronization points of streams, stored as numbers in memory that all processes map. SyncPoints behave like events
//! that several processes share, but no process owns them, so the process that records one may die.
//!
//! Each point has a line with two numbers. `called` counts the records that were enqueued; the host writes it.
//! `reached` is the number of the last record that the device has reached; a stream writes it. A stream that is ordered
//! behind a point waits until `reached` is at least the value that `called` has now. An event has the same meaning: the
//! wait is for the last record that was called before.
//!
//! - `WORD-1` both numbers of a line are written by one endpoint alone, while it lives.
//! - `WORD-2` when the process of that endpoint has died, every process that learns of the death sets `reached` to
//!   `called`, so no stream waits for a dead process.
#![allow(unsafe_code)] // lets the device write to host memory

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cudarc::driver::sys::CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_GEQ;
use cudarc::driver::sys::CUstreamWriteValue_flags::CU_STREAM_WRITE_VALUE_DEFAULT;

use super::error::DeviceChannelError;
use crate::device::error::DeviceError;
use crate::device::gpu::{Context, Gpu};
use crate::device::handles::StreamHandle;
use crate::device::pinned::Registered;
use crate::device::reclaimer::Resource;
use crate::error::SegmentError;
use crate::memory::region::Region;
use crate::memory::segment::{Provider, SEGMENT_HEADER_BYTES, Segment};

/// The number of bytes from one line to the next.
const LINE: usize = 128;
const REACHED: usize = 0;
const CALLED: usize = 4;
const PAGE: usize = 4096;

const WRITE_DEFAULT: u32 = CU_STREAM_WRITE_VALUE_DEFAULT as u32;
const WAIT_AT_LEAST: u32 = CU_STREAM_WAIT_VALUE_GEQ as u32;

/// The lines of all points, in a segment of their own, registered with the driver.
pub(super) struct Words {
    context: Arc<Context>,
    region: Region,
    /// `None` only during the drop.
    registered: Option<Registered>,
    lines: usize,
}

impl Words {
    /// Creates a segment with room for `lines` points.
    pub(super) fn create(lines: usize) -> Result<Segment, SegmentError> {
        let len = lines
            .checked_mul(LINE)
            .and_then(|len| len.checked_add(SEGMENT_HEADER_BYTES));
        let len = len.and_then(|len| len.checked_next_multiple_of(PAGE));
        Segment::create(Provider::Memfd, len.ok_or_else(SegmentError::unaddressable)?)
    }

    /// Registers the points of a segment with the driver.
    ///
    /// # Errors
    /// [`SegmentError::OutOfBounds`] if the segment is too short for `lines` points, and the errors of the driver.
    pub(super) fn register(gpu: &Gpu, segment: Segment, lines: usize) -> Result<Self, DeviceChannelError> {
        gpu.bind()?;
        let region = segment.part(SEGMENT_HEADER_BYTES, lines.saturating_mul(LINE))?;
        let context = Arc::clone(&gpu.context);
        Ok(Words {
            registered: Some(context.calls.register(segment)?),
            context,
            region,
            lines,
        })
    }

    /// The segment, for other processes to map.
    pub(super) fn segment(&self) -> Option<&Segment> {
        self.registered.as_ref().map(|registered| &registered.segment)
    }

    /// The device address of a line's `reached`.
    fn address(&self, line: usize) -> u64 {
        let base = self
            .registered
            .as_ref()
            .map_or(0, |registered| registered.address);
        base + (SEGMENT_HEADER_BYTES + line * LINE + REACHED) as u64
    }

    /// Records the point of a line at the current end of a stream.
    pub(super) fn record(&self, line: usize, stream: &StreamHandle) -> Result<(), DeviceChannelError> {
        let called = self.region.atomic_u32(line * LINE + CALLED)?;
        // Relaxed: only this endpoint writes the count (WORD-1).
        let number = called.load(Ordering::Relaxed).wrapping_add(1);
        self.context.bind()?;
        let (calls, address) = (self.context.calls, self.address(line));
        // SAFETY: the address is that of a registered word, for `atomic_u32` has found the line, and the word stays
        // until the stream has reached this write (DEV-2). With the default flags everything that the stream wrote
        // before is visible before the number is.
        let written = unsafe { calls.cuStreamWriteValue32_v2(stream.raw(), address, number, WRITE_DEFAULT) };
        written.map_err(DeviceError::from)?;
        // Relaxed: the message or the credit that follows publishes the count, as it publishes the call for an event.
        called.store(number, Ordering::Relaxed);
        Ok(())
    }

    /// Orders a stream behind the last record of a line.
    pub(super) fn order_after(&self, line: usize, stream: &StreamHandle) -> Result<(), DeviceChannelError> {
        let called = self.region.atomic_u32(line * LINE + CALLED)?;
        let reached = self.region.atomic_u32(line * LINE + REACHED)?;
        // Relaxed: the stamp or the credit that this endpoint has read publishes the count.
        let number = called.load(Ordering::Relaxed);
        // Relaxed: the stream waits for the word, not the host.
        if number == 0 && reached.load(Ordering::Relaxed) == 0 {
            return Ok(()); // never recorded
        }
        self.context.bind()?;
        let (calls, address) = (self.context.calls, self.address(line));
        // SAFETY: the address is that of a registered word, for `atomic_u32` has found the line, and the word stays
        // until the stream has reached this wait (DEV-2). The wait ends when the word is at least the number, with
        // wrap-around.
        let ordered = unsafe { calls.cuStreamWaitValue32_v2(stream.raw(), address, number, WAIT_AT_LEAST) };
        Ok(ordered.map_err(DeviceError::from)?)
    }

    /// Releases every stream that waits for these lines, whose endpoint has died (`WORD-2`).
    pub(super) fn release(&self, lines: impl Iterator<Item = usize>) {
        for line in lines.filter(|line| *line < self.lines) {
            let word = |offset| self.region.atomic_u32(line * LINE + offset);
            if let (Ok(called), Ok(reached)) = (word(CALLED), word(REACHED)) {
                // SYNC point-released: `Release`, for a stream waits for this word, and the host that waits for the
                // stream checks for the death afterwards. The death was recorded before this store, so the host sees
                // it. `Relaxed` suffices for the load: it is the last count of the dead process, and publishes nothing.
                reached.store(called.load(Ordering::Relaxed), Ordering::Release);
            }
        }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        let Some(registered) = self.registered.take() else {
            return;
        };
        match self.context.bind() {
            Ok(()) => self.context.reclaimer.retire(Resource::Words(registered)),
            // Nothing can tell when the streams are done, and they may still write: the memory stays (DEV-2).
            Err(_) => std::mem::forget(registered),
        }
    }
}
