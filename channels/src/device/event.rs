//! Events: points of a stream behind which other streams can be ordered, in this process or in another.

use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

use super::error::DeviceError;
use super::gpu::{Context, Gpu};
use super::handles::{EventHandle, IpcHandle};

/// A point of a stream, without a timestamp. An event that was never recorded counts as reached.
///
/// Dropping an event does not wait for it. Streams that were ordered behind it stay ordered.
pub struct Event {
    context: Arc<Context>,
    /// `None` only during the drop.
    handle: Option<EventHandle>,
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Event")
    }
}

impl Event {
    /// Creates an event for streams of this process.
    ///
    /// # Errors
    /// [`DeviceError::Call`].
    pub fn new(gpu: &Gpu) -> Result<Self, DeviceError> {
        Event::with(gpu, |context| context.calls.event(false))
    }

    /// Creates an event that other processes can open, record, and order their streams behind. It must outlive their
    /// use of it.
    pub(super) fn shared(gpu: &Gpu) -> Result<Self, DeviceError> {
        Event::with(gpu, |context| context.calls.event(true))
    }

    /// Opens an event of another process.
    pub(super) fn import(gpu: &Gpu, exported: IpcHandle) -> Result<Self, DeviceError> {
        Event::with(gpu, |context| context.calls.import_event(exported))
    }

    fn with(
        gpu: &Gpu,
        make: impl FnOnce(&Context) -> Result<EventHandle, DeviceError>,
    ) -> Result<Self, DeviceError> {
        gpu.bind()?;
        Ok(Event {
            handle: Some(make(&gpu.context)?),
            context: Arc::clone(&gpu.context),
        })
    }

    /// Returns the handle with which another process opens the event.
    pub(super) fn export(&self) -> Result<IpcHandle, DeviceError> {
        self.context.bind()?;
        self.context.calls.export_event(self.handle()?)
    }

    /// The handle, which exists until the drop.
    pub(super) fn handle(&self) -> Result<&EventHandle, DeviceError> {
        self.handle.as_ref().ok_or(DeviceError::Call {
            call: "cuEventQuery",
            code: 400,
            name: String::new(),
        })
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Whether the device has reached the last recorded point. Never waits.
    ///
    /// # Errors
    /// [`DeviceError::Call`], also for an earlier failure on the device.
    pub fn is_done(&self) -> Result<bool, DeviceError> {
        self.context.bind()?;
        self.context.calls.event_is_done(self.handle()?)
    }

    /// The driver's handle (`CUevent`), for other libraries; null during the drop. The event keeps ownership of the
    /// handle.
    pub fn as_raw(&self) -> *mut c_void {
        self.handle
            .as_ref()
            .map_or(std::ptr::null_mut(), |handle| handle.raw().cast())
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take()
            && self.context.bind().is_ok()
        {
            let _ = self.context.calls.destroy_event(handle);
        }
    }
}
