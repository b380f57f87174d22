//! Points of streams as numbers in memory that all processes map: like events of several processes, but of nobody, so that
//! their owner may die.
//!
//! Each has a line of two numbers. `called` counts the records that were enqueued, and the host writes it; `reached` is the
//! last of them that the device has come to, and a stream writes it. Ordering a stream behind such a point makes it wait until
//! `reached` is what `called` is now: as with an event, the last record that was called before.
//!
//! - `WORD-1` both numbers of a line are written by one end alone, while it lives.
//! - `WORD-2` when that end's process has died, whoever hears of it sets `reached` to `called`: no stream waits for the dead.
#![allow(unsafe_code)] // has the device write to memory of the host

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::error::DeviceError;
use super::gpu::{Context, Gpu};
use super::handles::StreamHandle;
use super::retired::Resource;
use crate::error::SegmentError;
use crate::region::Region;
use crate::segment::{Provider, SEGMENT_HEADER_BYTES, Segment};

/// From one line to the next.
const LINE: usize = 128;
const REACHED: usize = 0;
const CALLED: usize = 4;
const PAGE: usize = 4096;

/// `CU_MEMHOSTREGISTER_PORTABLE` and `CU_MEMHOSTREGISTER_DEVICEMAP`.
const FLAGS: u32 = 3;

/// Memory of the host that the device may write: given back when it does not.
#[derive(Debug)]
pub(super) struct Registered {
    segment: Segment,
    region: Region,
    /// Where the device sees it.
    address: u64,
}

/// Lines in a segment of their own, registered with the driver.
pub(super) struct Words {
    context: Arc<Context>,
    region: Region,
    /// `None` only while it is dropped.
    registered: Option<Registered>,
    lines: usize,
}

impl Words {
    /// Memory for so many points.
    pub(super) fn create(lines: usize) -> Result<Segment, SegmentError> {
        let len = lines
            .checked_mul(LINE)
            .and_then(|len| len.checked_add(SEGMENT_HEADER_BYTES));
        let len = len.and_then(|len| len.checked_next_multiple_of(PAGE));
        Segment::create(Provider::Memfd, len.ok_or_else(SegmentError::unaddressable)?)
    }

    /// The points in a segment, which the driver is told of.
    ///
    /// # Errors
    /// [`SegmentError::OutOfBounds`] when the segment is too short for them, and what the driver says.
    pub(super) fn register<E>(gpu: &Gpu, segment: Segment, lines: usize) -> Result<Self, E>
    where
        E: From<SegmentError> + From<DeviceError>,
    {
        gpu.bind()?;
        let bytes = lines.saturating_mul(LINE);
        let region = segment.part(SEGMENT_HEADER_BYTES, bytes)?;
        let whole = segment.part(0, segment.len_bytes())?;
        let base = whole.address(0, segment.len_bytes())?;
        let context = Arc::clone(&gpu.context);
        let calls = context.calls;
        // SAFETY: the whole of a mapping that stays until the memory is unregistered: `Registered` keeps it.
        let code = unsafe { (calls.functions.host_register)(base.cast(), segment.len_bytes(), FLAGS) };
        calls.check("cuMemHostRegister_v2", code)?;
        let mut registered = Registered {
            segment,
            region: whole,
            address: 0,
        };
        // SAFETY: writes one number where there is room for one; the memory was just registered.
        let code = unsafe { (calls.functions.host_address)(&raw mut registered.address, base.cast(), 0) };
        if let Err(error) = calls.check("cuMemHostGetDevicePointer_v2", code) {
            calls.unregister(registered);
            return Err(error.into());
        }
        Ok(Words {
            context,
            region,
            registered: Some(registered),
            lines,
        })
    }

    /// The segment, for others to map.
    pub(super) fn segment(&self) -> Option<&Segment> {
        self.registered.as_ref().map(|registered| &registered.segment)
    }

    /// Where the device finds a line's number.
    fn address(&self, line: usize) -> u64 {
        let base = self
            .registered
            .as_ref()
            .map_or(0, |registered| registered.address);
        base + (SEGMENT_HEADER_BYTES + line * LINE + REACHED) as u64
    }

    /// Makes a line this point of a stream.
    pub(super) fn record(&self, line: usize, stream: &StreamHandle) -> Result<(), PointError> {
        let called = self.region.atomic_u32(line * LINE + CALLED)?;
        let number = called.load(Ordering::Relaxed).wrapping_add(1);
        self.context.bind()?;
        let calls = self.context.calls;
        // SAFETY: a registered word (the line was found), which stays until the stream has come here (DEV-2); by default
        // everything that the stream wrote before is there when the number is.
        let code = unsafe { (calls.functions.write_value)(stream.raw(), self.address(line), number, 0) };
        calls.check("cuStreamWriteValue32_v2", code)?;
        // Relaxed: the message or the credit that follows publishes it, as the call is published for an event.
        called.store(number, Ordering::Relaxed);
        Ok(())
    }

    /// Orders a stream behind what the line is now.
    pub(super) fn order_after(&self, line: usize, stream: &StreamHandle) -> Result<(), PointError> {
        let number = self
            .region
            .atomic_u32(line * LINE + CALLED)?
            .load(Ordering::Relaxed);
        let reached = self.region.atomic_u32(line * LINE + REACHED)?;
        if number == 0 && reached.load(Ordering::Relaxed) == 0 {
            return Ok(()); // never recorded
        }
        self.context.bind()?;
        let calls = self.context.calls;
        // SAFETY: a registered word (the line was found), which stays until the stream has come here (DEV-2). 0: until the
        // word is at least the number, going round.
        let code = unsafe { (calls.functions.wait_value)(stream.raw(), self.address(line), number, 0) };
        Ok(calls.check("cuStreamWaitValue32_v2", code)?)
    }

    /// Lets every stream go on that waits for these lines, whose end has died (`WORD-2`).
    pub(super) fn release(&self, lines: impl Iterator<Item = usize>) {
        for line in lines.filter(|line| *line < self.lines) {
            let word = |offset| self.region.atomic_u32(line * LINE + offset);
            if let (Ok(called), Ok(reached)) = (word(CALLED), word(REACHED)) {
                // SYNC point-released: a device waits for it, and with it the host that looks for the death afterwards: that
                // has been written before. The count is the dead process's last, so nothing is published by it.
                reached.store(called.load(Ordering::Relaxed), Ordering::Release);
            }
        }
    }
}

/// Why a point could not be recorded or waited for.
#[derive(Debug)]
pub(super) enum PointError {
    /// There is no such line.
    Segment(SegmentError),
    /// What the driver says.
    Device(DeviceError),
}

impl From<SegmentError> for PointError {
    fn from(error: SegmentError) -> Self {
        PointError::Segment(error)
    }
}

impl From<DeviceError> for PointError {
    fn from(error: DeviceError) -> Self {
        PointError::Device(error)
    }
}

impl super::calls::Calls {
    /// Takes memory of the host back from the driver, and unmaps it.
    pub(super) fn unregister(&self, memory: Registered) {
        if let Ok(base) = memory.region.address(0, memory.segment.len_bytes()) {
            // SAFETY: registered by `register`, and by `DEV-2` in use no more; the mapping goes afterwards.
            unsafe { (self.functions.host_unregister)(base.cast()) };
        }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        let Some(registered) = self.registered.take() else {
            return;
        };
        if self.context.bind().is_ok() {
            self.context.retired.retire(Resource::Words(registered));
        }
    }
}
