//! The driver's objects, each behind a handle that only this file makes and that its last call consumes: so a handle that is
//! there is valid, and every call here is sound for whatever its caller does with handles.
//!
//! - `DEV-1` a handle's object lives until the call that takes the handle by value.
//! - `DEV-2` memory behind an address is given back only when all that was enqueued before is done ([`retired`](super::retired)),
//!   so an enqueued copy never touches memory that is gone.
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

        // SAFETY: the driver's objects may be used from any thread, by several at once; the handle is a number to us.
        unsafe impl Send for $name {}
        // SAFETY: as for `Send`.
        unsafe impl Sync for $name {}

    };
}

handle!(
    /// A device's primary context, retained.
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
    /// As [`StreamHandle::raw`].
    pub(super) fn raw(&self) -> *mut c_void {
        self.0
    }
}

impl StreamHandle {
    /// Another library's stream, which is never destroyed here.
    ///
    /// # Safety
    /// It is a stream of the context in which it is used, or null for that context's default stream, and lives for as long as
    /// the handle is used (DEV-1).
    pub(super) unsafe fn foreign(raw: *mut c_void) -> Self {
        StreamHandle(raw)
    }

    /// The driver's own handle, for other libraries.
    pub(super) fn raw(&self) -> *mut c_void {
        self.0
    }
}

impl EventHandle {
    /// As [`StreamHandle::raw`].
    pub(super) fn raw(&self) -> *mut c_void {
        self.0
    }
}

/// A device, as the driver numbers it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ordinal(c_int);

impl Ordinal {
    pub(super) fn number(self) -> c_int {
        self.0
    }
}

impl Calls {
    /// A failure, where a call returned a number that is not 0.
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

    /// Whether a call said that something is done.
    fn done(&self, call: &'static str, code: c_int) -> Result<bool, DeviceError> {
        if code == code::NOT_READY {
            return Ok(false);
        }
        self.check(call, code).map(|()| true)
    }

    /// A handle that a call writes.
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
        // SAFETY: writes one number where there is room for one.
        let code = unsafe { (self.functions.device_count)(&raw mut count) };
        self.check("cuDeviceGetCount", code)?;
        let count = u32::try_from(count).unwrap_or(0);
        let mut device = 0;
        let number = c_int::try_from(index).ok().filter(|_| index < count);
        let number = number.ok_or(DeviceError::NoDevice { index, count })?;
        // SAFETY: as above.
        let code = unsafe { (self.functions.device_get)(&raw mut device, number) };
        self.check("cuDeviceGet", code)?;
        Ok(Ordinal(device))
    }

    pub(super) fn device_id(&self, device: Ordinal) -> Result<DeviceId, DeviceError> {
        let mut uuid = Uuid::default();
        // SAFETY: writes 16 bytes where there is room for them.
        let code = unsafe { (self.functions.device_uuid)(&raw mut uuid, device.0) };
        self.check("cuDeviceGetUuid_v2", code)?;
        Ok(DeviceId(uuid.0))
    }

    /// Whether the device has a property; what an older driver does not know, it has not.
    pub(super) fn has(&self, device: Ordinal, attribute: c_int) -> bool {
        let mut value = 0;
        // SAFETY: writes one number where there is room for one.
        let code = unsafe { (self.functions.device_attribute)(&raw mut value, attribute, device.0) };
        code == 0 && value != 0
    }

    pub(super) fn retain(&self, device: Ordinal) -> Result<ContextHandle, DeviceError> {
        let make = |to| {
            // SAFETY: writes a handle where there is room for one.
            unsafe { (self.functions.context_retain)(to, device.0) }
        };
        self.made("cuDevicePrimaryCtxRetain", make).map(ContextHandle)
    }

    pub(super) fn release(&self, _consumed: ContextHandle, device: Ordinal) -> Result<(), DeviceError> {
        // SAFETY: undoes one `retain`, whose handle is gone.
        let code = unsafe { (self.functions.context_release)(device.0) };
        self.check("cuDevicePrimaryCtxRelease_v2", code)
    }

    pub(super) fn set_current(&self, context: &ContextHandle) -> Result<(), DeviceError> {
        // SAFETY: the context lives (DEV-1).
        let code = unsafe { (self.functions.context_set)(context.0) };
        self.check("cuCtxSetCurrent", code)
    }

    /// Free bytes and all bytes of the current context's device.
    pub(super) fn memory_info(&self) -> Result<(usize, usize), DeviceError> {
        let (mut free, mut all) = (0, 0);
        // SAFETY: writes two numbers where there is room for them.
        let code = unsafe { (self.functions.memory_info)(&raw mut free, &raw mut all) };
        self.check("cuMemGetInfo_v2", code).map(|()| (free, all))
    }

    pub(super) fn stream(&self, priority: c_int) -> Result<StreamHandle, DeviceError> {
        let make = |to| {
            // SAFETY: writes a handle where there is room for one.
            unsafe { (self.functions.stream_create)(to, NON_BLOCKING, priority) }
        };
        self.made("cuStreamCreateWithPriority", make).map(StreamHandle)
    }

    /// Gives a stream back; what was enqueued goes on.
    pub(super) fn destroy_stream(&self, stream: StreamHandle) -> Result<(), DeviceError> {
        // SAFETY: the stream lives, and nobody has its handle any more (DEV-1).
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
            // SAFETY: writes a handle where there is room for one.
            unsafe { (self.functions.event_create)(to, NO_TIMING | flags) }
        };
        self.made("cuEventCreate", make).map(EventHandle)
    }

    /// Gives an event back, also one that is still to come.
    pub(super) fn destroy_event(&self, event: EventHandle) -> Result<(), DeviceError> {
        // SAFETY: the event lives, and nobody has its handle any more (DEV-1).
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
        // SAFETY: writes 64 bytes where there is room for them; the event lives (DEV-1).
        let code = unsafe { (self.functions.event_export)(&raw mut handle, event.0) };
        self.check("cuIpcGetEventHandle", code).map(|()| handle)
    }

    pub(super) fn import_event(&self, handle: IpcHandle) -> Result<EventHandle, DeviceError> {
        let make = |to| {
            // SAFETY: writes a handle where there is room for one; what the 64 bytes are worth, the driver looks.
            unsafe { (self.functions.event_import)(to, handle) }
        };
        self.made("cuIpcOpenEventHandle", make).map(EventHandle)
    }
}
