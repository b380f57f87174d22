//! Copies between host and device, enqueued on a stream.
#![allow(unsafe_code)] // reads bytes that the device has written

use std::time::Duration;

use super::error::DeviceError;
use super::event::Event;
use super::memory::{Span, SpanMut};
use super::pinned::Pinned;
use super::reclaimer::Resource;
use super::stream::Stream;

impl Stream {
    /// Enqueues a copy of `bytes` to the device. The caller may reuse `bytes` at once.
    ///
    /// # Errors
    /// [`DeviceError::OutOfBounds`] if the lengths of `to` and `bytes` differ, [`DeviceError::WrongDevice`],
    /// [`DeviceError::Call`].
    pub fn upload(&self, to: SpanMut<'_>, bytes: &[u8]) -> Result<(), DeviceError> {
        let (context, stream) = self.ready()?;
        context.check_same("the memory", to.span.context())?;
        to.span.check_len(bytes.len())?;
        let (place, mut staged) = (to.span.place()?, context.reclaimer.staging(bytes.len())?);
        let enqueued = context.calls.upload(place, bytes, &mut staged, stream);
        context.reclaimer.retire(Resource::Host(staged));
        enqueued
    }

    /// Enqueues a copy to the host, whose bytes are available when the copy is done.
    ///
    /// # Errors
    /// [`DeviceError::WrongDevice`], [`DeviceError::Call`].
    pub fn download(&self, from: Span<'_>) -> Result<Download<'_>, DeviceError> {
        let (context, stream) = self.ready()?;
        context.check_same("the memory", from.context())?;
        let (place, mut staged) = (from.place()?, context.reclaimer.staging(from.len_bytes())?);
        match context.calls.download(place, &mut staged, stream) {
            Ok(()) => Download::of(self, staged),
            Err(error) => {
                context.reclaimer.retire(Resource::Host(staged));
                Err(error)
            }
        }
    }

    /// Enqueues a copy within the device.
    ///
    /// # Errors
    /// [`DeviceError::OutOfBounds`] if the lengths differ, [`DeviceError::WrongDevice`], [`DeviceError::Call`].
    pub fn copy(&self, to: SpanMut<'_>, from: Span<'_>) -> Result<(), DeviceError> {
        let (context, stream) = self.ready()?;
        context.check_same("the memory", to.span.context())?;
        context.check_same("the memory", from.context())?;
        to.span.check_len(from.len_bytes())?;
        let bytes = from.len_bytes();
        context.calls.copy(to.span.place()?, from.place()?, bytes, stream)
    }

    /// Enqueues a copy to this device from another one. The caller must order a stream of that device behind the copy.
    pub(super) fn copy_across(&self, to: SpanMut<'_>, from: Span<'_>) -> Result<(), DeviceError> {
        let (context, stream) = self.ready()?;
        context.check_same("the memory", to.span.context())?;
        to.span.check_len(from.len_bytes())?;
        let bytes = from.len_bytes();
        let to = (to.span.place()?, context.handle()?);
        let from = (from.place()?, from.context().handle()?);
        context.calls.copy_across(to, from, bytes, stream)
    }

    /// Enqueues an operation that sets every byte to `byte`.
    ///
    /// # Errors
    /// [`DeviceError::WrongDevice`], [`DeviceError::Call`].
    pub fn fill(&self, to: SpanMut<'_>, byte: u8) -> Result<(), DeviceError> {
        let (context, stream) = self.ready()?;
        context.check_same("the memory", to.span.context())?;
        let bytes = to.span.len_bytes();
        context.calls.fill(to.span.place()?, bytes, byte, stream)
    }
}

/// A copy to the host in flight. Dropping it does not wait.
#[derive(Debug)]
#[must_use = "`wait` has the bytes"]
pub struct Download<'s> {
    stream: &'s Stream,
    arrived: Event,
    /// `None` only during the drop.
    staged: Option<Pinned>,
}

impl<'s> Download<'s> {
    /// Wraps a copy that was just enqueued on `stream`.
    pub(super) fn of(stream: &'s Stream, staged: Pinned) -> Result<Self, DeviceError> {
        match stream.mark() {
            Ok(arrived) => Ok(Download {
                stream,
                arrived,
                staged: Some(staged),
            }),
            Err(error) => {
                stream.gpu().context.reclaimer.retire(Resource::Host(staged));
                Err(error)
            }
        }
    }

    /// Waits for the copy and calls `read` with its bytes.
    ///
    /// # Errors
    /// [`DeviceError::Timeout`], [`DeviceError::Call`].
    pub fn wait<R>(self, timeout: Duration, read: impl FnOnce(&[u8]) -> R) -> Result<R, DeviceError> {
        if !self.arrived.is_done()? {
            self.stream.wait(timeout)?;
        }
        self.read(read)
    }

    /// Calls `read` with the bytes of a finished copy.
    pub(super) fn read<R>(&self, read: impl FnOnce(&[u8]) -> R) -> Result<R, DeviceError> {
        let arrived = self.arrived.is_done()?;
        let staged = self.staged.as_ref().filter(|_| arrived);
        let staged = staged.ok_or(DeviceError::Timeout {
            waited: Duration::ZERO,
        })?;
        // SAFETY: the copy was enqueued before `arrived`, which the device has reached, and there is no other copy into
        // this memory.
        Ok(read(unsafe { staged.bytes() }))
    }
}

impl Drop for Download<'_> {
    fn drop(&mut self) {
        if let Some(staged) = self.staged.take()
            && self.stream.gpu().bind().is_ok()
        {
            self.stream.gpu().context.reclaimer.retire(Resource::Host(staged));
        }
    }
}
