//! The objects of the driver, each behind a typed handle.
//!
//! Only this file makes handles, and the last call on an object consumes its handle. Therefore an existing handle is
//! valid, and every call here is sound for every use of handles by its caller.
//!
//! - `DEV-1` the object of a handle lives until the call that takes the handle by value.
//! - `DEV-2` memory behind an address is released only when all work that was enqueued before is done
//!   ([`Reclaimer`](super::reclaimer::Reclaimer)), so an enqueued copy never touches released memory.
#![allow(unsafe_code)] // calls the driver

use std::ffi::{c_char, c_int};
use std::ptr::null_mut;

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdevice_attribute, CUevent, CUevent_flags, CUipcEventHandle, CUstream,
    CUstream_flags, CUuuid,
};
use serde::{Deserialize, Serialize};

use super::calls::{Calls, is_ready};
use super::error::{DeviceError, DeviceId};

macro_rules! handle {
    ($(#[$what:meta])* $name:ident($raw:ty)) => {
        $(#[$what])*
        #[derive(Debug)]
        pub(super) struct $name($raw);

        // SAFETY: any thread may use the driver's objects, also several threads at once. This crate never dereferences
        // the pointer.
        unsafe impl Send for $name {}
        // SAFETY: the argument for `Send`.
        unsafe impl Sync for $name {}

        impl $name {
            /// The driver's own handle, for calls of the driver and for other libraries.
            pub(super) fn raw(&self) -> $raw {
                self.0
            }
        }
    };
}

handle!(
    /// The primary context of a device, retained.
    ContextHandle(CUcontext)
);
handle!(
    /// A stream.
    StreamHandle(CUstream)
);
handle!(
    /// An event.
    EventHandle(CUevent)
);

impl StreamHandle {
    /// Wraps another library's stream, which this crate never destroys.
    ///
    /// # Safety
    /// `raw` is a stream of the context in which the handle is used, or null for the default stream of that context. It
    /// lives for as long as the handle is used (DEV-1).
    pub(super) unsafe fn foreign(raw: CUstream) -> Self {
        StreamHandle(raw)
    }
}

impl Calls {
    /// The driver's number of the device with this index.
    pub(super) fn device(&self, index: u32) -> Result<CUdevice, DeviceError> {
        let mut count = 0;
        // SAFETY: writes one number to a place for one number.
        unsafe { self.cuDeviceGetCount(&raw mut count) }?;
        let count = u32::try_from(count).unwrap_or(0);
        let number = c_int::try_from(index).ok().filter(|_| index < count);
        let number = number.ok_or(DeviceError::NoDevice { index, count })?;
        let mut device = 0;
        // SAFETY: writes one number to a place for one number.
        unsafe { self.cuDeviceGet(&raw mut device, number) }?;
        Ok(device)
    }

    pub(super) fn device_id(&self, device: CUdevice) -> Result<DeviceId, DeviceError> {
        let mut uuid = CUuuid { bytes: [0; 16] };
        // SAFETY: writes 16 bytes to a place for 16 bytes.
        unsafe { self.cuDeviceGetUuid_v2(&raw mut uuid, device) }?;
        Ok(DeviceId(uuid.bytes.map(|byte| byte as u8)))
    }

    /// Whether the device has a property. An attribute that an older driver does not know counts as absent.
    pub(super) fn has(&self, device: CUdevice, attribute: CUdevice_attribute) -> bool {
        let mut value = 0;
        // SAFETY: writes one number to a place for one number.
        let known = unsafe { self.cuDeviceGetAttribute(&raw mut value, attribute, device) };
        known.is_ok() && value != 0
    }

    pub(super) fn retain(&self, device: CUdevice) -> Result<ContextHandle, DeviceError> {
        let mut context = null_mut();
        // SAFETY: writes a handle to a place for one handle.
        unsafe { self.cuDevicePrimaryCtxRetain(&raw mut context, device) }?;
        Ok(ContextHandle(context))
    }

    pub(super) fn release(&self, _consumed: ContextHandle, device: CUdevice) -> Result<(), DeviceError> {
        // SAFETY: undoes one `retain`, whose handle this call has consumed.
        Ok(unsafe { self.cuDevicePrimaryCtxRelease_v2(device) }?)
    }

    pub(super) fn set_current(&self, context: &ContextHandle) -> Result<(), DeviceError> {
        // SAFETY: the context lives (DEV-1).
        Ok(unsafe { self.cuCtxSetCurrent(context.0) }?)
    }

    /// The free bytes and the total bytes of the current context's device.
    pub(super) fn memory_info(&self) -> Result<(usize, usize), DeviceError> {
        let (mut free, mut all) = (0, 0);
        // SAFETY: writes two numbers to places for two numbers.
        unsafe { self.cuMemGetInfo_v2(&raw mut free, &raw mut all) }?;
        Ok((free, all))
    }

    /// Creates a stream that is not synchronized with the default stream.
    pub(super) fn stream(&self, priority: c_int) -> Result<StreamHandle, DeviceError> {
        let (mut stream, flags) = (null_mut(), CUstream_flags::CU_STREAM_NON_BLOCKING as u32);
        // SAFETY: writes a handle to a place for one handle.
        unsafe { self.cuStreamCreateWithPriority(&raw mut stream, flags, priority) }?;
        Ok(StreamHandle(stream))
    }

    /// Destroys a stream. Work that is already enqueued still runs.
    pub(super) fn destroy_stream(&self, stream: StreamHandle) -> Result<(), DeviceError> {
        // SAFETY: the stream lives (DEV-1), and this call consumes its only handle.
        Ok(unsafe { self.cuStreamDestroy_v2(stream.0) }?)
    }

    pub(super) fn stream_is_done(&self, stream: &StreamHandle) -> Result<bool, DeviceError> {
        // SAFETY: the stream lives (DEV-1).
        is_ready(unsafe { self.cuStreamQuery(stream.0) })
    }

    pub(super) fn wait_event(&self, stream: &StreamHandle, event: &EventHandle) -> Result<(), DeviceError> {
        // SAFETY: stream and event live (DEV-1); the flags must be 0.
        Ok(unsafe { self.cuStreamWaitEvent(stream.0, event.0, 0) }?)
    }

    /// Creates an event without a timestamp. If it is `shared`, other processes can open it.
    pub(super) fn event(&self, shared: bool) -> Result<EventHandle, DeviceError> {
        let interprocess = CUevent_flags::CU_EVENT_INTERPROCESS as u32 * u32::from(shared);
        let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING as u32 | interprocess;
        let mut event = null_mut();
        // SAFETY: writes a handle to a place for one handle.
        unsafe { self.cuEventCreate(&raw mut event, flags) }?;
        Ok(EventHandle(event))
    }

    /// Destroys an event, even one that the device has not reached yet.
    pub(super) fn destroy_event(&self, event: EventHandle) -> Result<(), DeviceError> {
        // SAFETY: the event lives (DEV-1), and this call consumes its only handle.
        Ok(unsafe { self.cuEventDestroy_v2(event.0) }?)
    }

    pub(super) fn record(&self, event: &EventHandle, stream: &StreamHandle) -> Result<(), DeviceError> {
        // SAFETY: event and stream live (DEV-1).
        Ok(unsafe { self.cuEventRecord(event.0, stream.0) }?)
    }

    pub(super) fn event_is_done(&self, event: &EventHandle) -> Result<bool, DeviceError> {
        // SAFETY: the event lives (DEV-1).
        is_ready(unsafe { self.cuEventQuery(event.0) })
    }

    pub(super) fn export_event(&self, event: &EventHandle) -> Result<IpcHandle, DeviceError> {
        let mut handle = CUipcEventHandle { reserved: [0; 64] };
        // SAFETY: writes 64 bytes to a place for 64 bytes; the event lives (DEV-1).
        unsafe { self.cuIpcGetEventHandle(&raw mut handle, event.0) }?;
        Ok(handle.reserved.into())
    }

    pub(super) fn import_event(&self, exported: IpcHandle) -> Result<EventHandle, DeviceError> {
        let reserved = exported.into();
        let mut event = null_mut();
        // SAFETY: writes a handle to a place for one handle; the driver validates the 64 bytes.
        unsafe { self.cuIpcOpenEventHandle(&raw mut event, CUipcEventHandle { reserved }) }?;
        Ok(EventHandle(event))
    }
}

/// The bytes of a `CUipcMemHandle` or a `CUipcEventHandle`: opaque, and valid in every process of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IpcHandle {
    // Serde does not support arrays of 64 elements.
    halves: [[u8; 32]; 2],
}

impl From<[c_char; 64]> for IpcHandle {
    fn from(bytes: [c_char; 64]) -> Self {
        let mut halves = [[0; 32]; 2];
        for (to, from) in halves.as_flattened_mut().iter_mut().zip(bytes) {
            *to = from as u8;
        }
        IpcHandle { halves }
    }
}

impl From<IpcHandle> for [c_char; 64] {
    fn from(exported: IpcHandle) -> Self {
        let mut bytes = [0; 64];
        for (to, from) in bytes.iter_mut().zip(exported.halves.as_flattened()) {
            *to = *from as c_char;
        }
        bytes
    }
}
