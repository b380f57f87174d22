//! The objects of the driver, each behind a typed handle.
//!
//! Only this file makes handles, and the last call on an object consumes its handle. Therefore an existing handle is
//! valid, and every call here is sound for every use of handles by its caller.
//!
//! - `DEV-1` the object of a handle lives until the call that takes the handle by value.
//! - `DEV-2` memory behind an address is released only when all work that was enqueued before is done
//!   ([`retired`](super::retired)), so an enqueued copy never touches released memory.
#![allow(unsafe_code)] // calls the driver

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

use super::abi::{IpcHandle, NO_TIMING, NON_BLOCKING, Uuid, code};
use super::calls::Calls;
use super::error::{DeviceError, DeviceId};

macro_rules! handle {
    ($(#[$what:meta])* $name:ident) => {
        $(#[$what])*
        #[derive(Debug)]
        pub(super) struct $name(*mut c_void);

        // SAFETY: any thread may use the driver's objects, also several threads at once. This crate never dereferences
        // the pointer.
        unsafe impl Send for $name {}
        // SAFETY: the argument for `Send`.
        unsafe impl Sync for $name {}

    };
}

handle!(
    /// The primary context of a device, retained.
    ContextHandle
);
handle!(
    /// A stream.
    StreamHandle
);
handle!(
    /// An event.
    EventHandle
);

impl ContextHandle {
    /// The driver's own handle, for calls of the driver.
    pub(super) fn raw(&self) -> *mut c_void {
        self.0
    }
}

impl StreamHandle {
    /// Wraps another library's stream, which this crate never destroys.
    ///
    /// # Safety
    /// `raw` is a stream of the context in which the handle is used, or null for the default stream of that context. It
    /// lives for as long as the handle is used (DEV-1).
    pub(super) unsafe fn foreign(raw: *mut c_void) -> Self {
        StreamHandle(raw)
    }

    /// The driver's own handle, for other libraries.
    pub(super) fn raw(&self) -> *mut c_void {
        self.0
    }
}

impl EventHandle {
    /// The driver's own handle, for other libraries.
    pub(super) fn raw(&self) -> *mut c_void {
        self.0
    }
}

/// A device, identified by the driver's number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ordinal(c_int);

impl Ordinal {
    pub(super) fn number(self) -> c_int {
        self.0
    }
}

impl Calls {
    /// Turns a return code other than 0 into an error.
    pub(super) fn check(&self, call: &'static str, code: c_int) -> Result<(), DeviceError> {
        if code == 0 {
            return Ok(());
        }
        Err(self.failed(call, code))
    }

    #[cold]
    fn failed(&self, call: &'static str, code: c_int) -> DeviceError {
        DeviceError::Call {
            call,
            code,
            name: self.name_of(code),
        }
    }

    /// Turns the result of a query into a bool: `false` for the code "not ready".
    fn done(&self, call: &'static str, code: c_int) -> Result<bool, DeviceError> {
        if code == code::NOT_READY {
            return Ok(false);
        }
        self.check(call, code).map(|()| true)
    }

    /// Returns the handle that a call writes.
    fn made(
        &self,
        call: &'static str,
        make: impl FnOnce(*mut *mut c_void) -> c_int,
    ) -> Result<*mut c_void, DeviceError> {
        let mut handle = null_mut();
        let code = make(&raw mut handle);
        self.check(call, code).map(|()| handle)
    }

    pub(super) fn device(&self, index: u32) -> Result<Ordinal, DeviceError> {
        let mut count = 0;
        // SAFETY: writes one number to a place for one number.
        let code = unsafe { (self.functions.device_count)(&raw mut count) };
        self.check("cuDeviceGetCount", code)?;
        let count = u32::try_from(count).unwrap_or(0);
        let mut device = 0;
        let number = c_int::try_from(index).ok().filter(|_| index < count);
        let number = number.ok_or(DeviceError::NoDevice { index, count })?;
        // SAFETY: writes one number to a place for one number.
        let code = unsafe { (self.functions.device_get)(&raw mut device, number) };
        self.check("cuDeviceGet", code)?;
        Ok(Ordinal(device))
    }

    pub(super) fn device_id(&self, device: Ordinal) -> Result<DeviceId, DeviceError> {
        let mut uuid = Uuid::default();
        // SAFETY: writes 16 bytes to a place for 16 bytes.
        let code = unsafe { (self.functions.device_uuid)(&raw mut uuid, device.0) };
        self.check("cuDeviceGetUuid_v2", code)?;
        Ok(DeviceId(uuid.0))
    }

    /// Whether the device has a property. An attribute that an older driver does not know counts as absent.
    pub(super) fn has(&self, device: Ordinal, attribute: c_int) -> bool {
        let mut value = 0;
        // SAFETY: writes one number to a place for one number.
        let code = unsafe { (self.functions.device_attribute)(&raw mut value, attribute, device.0) };
        code == 0 && value != 0
    }

    pub(super) fn retain(&self, device: Ordinal) -> Result<ContextHandle, DeviceError> {
        let make = |to| {
            // SAFETY: writes a handle to a place for one handle.
            unsafe { (self.functions.context_retain)(to, device.0) }
        };
        self.made("cuDevicePrimaryCtxRetain", make).map(ContextHandle)
    }

    pub(super) fn release(&self, _consumed: ContextHandle, device: Ordinal) -> Result<(), DeviceError> {
        // SAFETY: undoes one `retain`, whose handle this call has consumed.
        let code = unsafe { (self.functions.context_release)(device.0) };
        self.check("cuDevicePrimaryCtxRelease_v2", code)
    }

    pub(super) fn set_current(&self, context: &ContextHandle) -> Result<(), DeviceError> {
        // SAFETY: the context lives (DEV-1).
        let code = unsafe { (self.functions.context_set)(context.0) };
        self.check("cuCtxSetCurrent", code)
    }

    /// The free bytes and the total bytes of the current context's device.
    pub(super) fn memory_info(&self) -> Result<(usize, usize), DeviceError> {
        let (mut free, mut all) = (0, 0);
        // SAFETY: writes two numbers to places for two numbers.
        let code = unsafe { (self.functions.memory_info)(&raw mut free, &raw mut all) };
        self.check("cuMemGetInfo_v2", code).map(|()| (free, all))
    }

    pub(super) fn stream(&self, priority: c_int) -> Result<StreamHandle, DeviceError> {
        let make = |to| {
            // SAFETY: writes a handle to a place for one handle.
            unsafe { (self.functions.stream_create)(to, NON_BLOCKING, priority) }
        };
        self.made("cuStreamCreateWithPriority", make).map(StreamHandle)
    }

    /// Destroys a stream. Work that is already enqueued still runs.
    pub(super) fn destroy_stream(&self, stream: StreamHandle) -> Result<(), DeviceError> {
        // SAFETY: the stream lives (DEV-1), and this call consumes its only handle.
        let code = unsafe { (self.functions.stream_destroy)(stream.0) };
        self.check("cuStreamDestroy_v2", code)
    }

    pub(super) fn stream_is_done(&self, stream: &StreamHandle) -> Result<bool, DeviceError> {
        // SAFETY: the stream lives (DEV-1).
        let code = unsafe { (self.functions.stream_query)(stream.0) };
        self.done("cuStreamQuery", code)
    }

    pub(super) fn wait_event(&self, stream: &StreamHandle, event: &EventHandle) -> Result<(), DeviceError> {
        // SAFETY: stream and event live (DEV-1); the flags must be 0.
        let code = unsafe { (self.functions.stream_wait)(stream.0, event.0, 0) };
        self.check("cuStreamWaitEvent", code)
    }

    pub(super) fn event(&self, flags: c_uint) -> Result<EventHandle, DeviceError> {
        let make = |to| {
            // SAFETY: writes a handle to a place for one handle.
            unsafe { (self.functions.event_create)(to, NO_TIMING | flags) }
        };
        self.made("cuEventCreate", make).map(EventHandle)
    }

    /// Destroys an event, even one that the device has not reached yet.
    pub(super) fn destroy_event(&self, event: EventHandle) -> Result<(), DeviceError> {
        // SAFETY: the event lives (DEV-1), and this call consumes its only handle.
        let code = unsafe { (self.functions.event_destroy)(event.0) };
        self.check("cuEventDestroy_v2", code)
    }

    pub(super) fn record(&self, event: &EventHandle, stream: &StreamHandle) -> Result<(), DeviceError> {
        // SAFETY: event and stream live (DEV-1).
        let code = unsafe { (self.functions.event_record)(event.0, stream.0) };
        self.check("cuEventRecord", code)
    }

    pub(super) fn event_is_done(&self, event: &EventHandle) -> Result<bool, DeviceError> {
        // SAFETY: the event lives (DEV-1).
        let code = unsafe { (self.functions.event_query)(event.0) };
        self.done("cuEventQuery", code)
    }

    pub(super) fn export_event(&self, event: &EventHandle) -> Result<IpcHandle, DeviceError> {
        let mut handle = IpcHandle([0; 64]);
        // SAFETY: writes 64 bytes to a place for 64 bytes; the event lives (DEV-1).
        let code = unsafe { (self.functions.event_export)(&raw mut handle, event.0) };
        self.check("cuIpcGetEventHandle", code).map(|()| handle)
    }

    pub(super) fn import_event(&self, handle: IpcHandle) -> Result<EventHandle, DeviceError> {
        let make = |to| {
            // SAFETY: writes a handle to a place for one handle; the driver validates the 64 bytes.
            unsafe { (self.functions.event_import)(to, handle) }
        };
        self.made("cuIpcOpenEventHandle", make).map(EventHandle)
    }
}
