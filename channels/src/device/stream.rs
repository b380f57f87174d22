//! Streams: queues whose operations run in order on the device, concurrently with the host.

use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::error::DeviceError;
use super::event::Event;
use super::gpu::{Context, Gpu};
use super::handles::StreamHandle;
use super::host_call::{Done, ring_when_done};
use crate::wait::doorbell::Doorbell;
use crate::wait::waiting::Waiting;

/// The interval at which a waiting thread queries the device for errors: the driver does not report them by itself.
pub(super) const ASKED_EVERY: Duration = Duration::from_secs(1);

/// A queue of operations on a device. Only [`wait`](Self::wait) blocks; every other method enqueues and returns.
///
/// Dropping a stream does not wait: operations that are enqueued still run.
pub struct Stream {
    gpu: Gpu,
    /// `None` only during the drop.
    handle: Option<Arc<StreamHandle>>,
    is_foreign: bool,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream on {:?}", self.gpu)
    }
}

impl Stream {
    /// Creates a stream for kernels.
    ///
    /// # Errors
    /// [`DeviceError::Call`].
    pub fn compute(gpu: &Gpu) -> Result<Self, DeviceError> {
        Stream::with_priority(gpu, 0)
    }

    /// Creates a stream for transfers. The device gives it a higher priority, since other streams wait for transfers.
    ///
    /// # Errors
    /// [`DeviceError::Call`].
    pub fn communication(gpu: &Gpu) -> Result<Self, DeviceError> {
        // A device without priorities treats -1 as 0.
        Stream::with_priority(gpu, -1)
    }

    fn with_priority(gpu: &Gpu, priority: i32) -> Result<Self, DeviceError> {
        gpu.bind()?;
        let context = &gpu.context;
        let handle = context.reclaimer.enter(context.calls.stream(priority)?);
        Ok(Stream {
            gpu: gpu.clone(),
            handle: Some(handle),
            is_foreign: false,
        })
    }

    /// Wraps another library's stream, whose handle lives as long as the wrapper.
    pub(super) fn of_foreign(gpu: &Gpu, handle: StreamHandle) -> Self {
        Stream {
            gpu: gpu.clone(),
            handle: Some(gpu.context.reclaimer.enter(handle)),
            is_foreign: true,
        }
    }

    /// Orders a new stream of this library behind the end of this foreign stream, and drops it. Reclaimer memory waits
    /// for the new stream from then on, since the foreign one is not observed any more.
    fn leave_in_place(&self) -> Result<(), DeviceError> {
        Stream::compute(&self.gpu)?.order_after(&self.mark()?)
    }

    /// The device of the stream.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// The driver's handle (`CUstream`), for other libraries; null during the drop. The stream keeps ownership of the
    /// handle.
    pub fn as_raw(&self) -> *mut c_void {
        self.handle
            .as_ref()
            .map_or(std::ptr::null_mut(), |handle| handle.raw().cast())
    }

    /// The handle, for enqueueing operations of other modules. Binds the context.
    pub(super) fn handle(&self) -> Result<&StreamHandle, DeviceError> {
        Ok(self.ready()?.1)
    }

    /// Binds the context, and returns it with the handle.
    pub(super) fn ready(&self) -> Result<(&Arc<Context>, &StreamHandle), DeviceError> {
        let context = &self.gpu.context;
        context.bind()?;
        let handle = self.handle.as_deref().ok_or(DeviceError::Call {
            call: "cuStreamQuery",
            code: 400,
            name: String::new(),
        })?;
        Ok((context, handle))
    }

    /// Records `event` at this point of the stream. The event no longer marks the point that it marked before.
    ///
    /// # Errors
    /// [`DeviceError::WrongDevice`], [`DeviceError::Call`].
    pub fn record(&self, event: &Event) -> Result<(), DeviceError> {
        let (context, stream) = self.ready()?;
        context.check_same("the event", event.context())?;
        context.calls.record(event.handle()?, stream)
    }

    /// Creates an event and records it at this point of the stream.
    ///
    /// # Errors
    /// [`DeviceError::Call`].
    pub fn mark(&self) -> Result<Event, DeviceError> {
        let event = Event::new(&self.gpu)?;
        self.record(&event)?;
        Ok(event)
    }

    /// Orders the stream behind the point that the event marks now: operations that are enqueued from now on start
    /// after it. The event may belong to another device.
    ///
    /// # Errors
    /// [`DeviceError::Call`].
    pub fn order_after(&self, event: &Event) -> Result<(), DeviceError> {
        let (context, stream) = self.ready()?;
        context.calls.wait_event(stream, event.handle()?)
    }

    /// Whether all enqueued operations are done. Never waits.
    ///
    /// # Errors
    /// [`DeviceError::Call`], also for an earlier failure on the device.
    pub fn is_done(&self) -> Result<bool, DeviceError> {
        let (context, stream) = self.ready()?;
        context.calls.stream_is_done(stream)
    }

    /// Blocks until all enqueued operations are done. The thread sleeps meanwhile.
    ///
    /// # Errors
    /// [`DeviceError::Timeout`], [`DeviceError::Call`].
    pub fn wait(&self, timeout: Duration) -> Result<(), DeviceError> {
        if self.is_done()? {
            return Ok(());
        }
        let bell = Doorbell::heap();
        let done = self.ring_when_done(&bell)?;
        let started = Instant::now();
        let deadline = started.checked_add(timeout);
        // After an error of the device the bell does not ring. Therefore the loop queries the stream at intervals, and
        // once more before it reports a timeout.
        loop {
            let asked = Instant::now() + ASKED_EVERY;
            let until = deadline.map_or(asked, |deadline| deadline.min(asked));
            if bell.wait(&Waiting::Park, Some(until), || done.has_come()) || self.is_done()? {
                return Ok(());
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                let waited = started.elapsed();
                return Err(DeviceError::Timeout { waited });
            }
        }
    }

    /// Rings a bell when all operations enqueued so far are done. After an error of the device the bell does not ring.
    ///
    /// # Errors
    /// [`DeviceError::Call`].
    pub(crate) fn ring_when_done(&self, bell: &Doorbell) -> Result<Done, DeviceError> {
        let (context, stream) = self.ready()?;
        ring_when_done(context.calls, stream, bell)
    }

    /// Rings `bell` when all operations enqueued so far are done. After an error of the device the bell does not ring.
    ///
    /// # Errors
    /// [`DeviceError::Call`].
    pub fn ring(&self, bell: &Doorbell) -> Result<(), DeviceError> {
        self.ring_when_done(bell).map(drop)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.is_foreign {
            // If the driver refuses, the device runs nothing any more.
            let _ = self.leave_in_place();
            if let Some(handle) = self.handle.take() {
                self.gpu.context.reclaimer.forget(&handle);
            }
        }
        if let Some(handle) = self.handle.take()
            && self.gpu.bind().is_ok()
        {
            self.gpu.context.reclaimer.leave(handle);
        }
    }
}
