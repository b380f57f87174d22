//! A device, opened.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::abi::attribute;
use super::calls::Calls;
use super::error::{DeviceError, DeviceId};
use super::handles::{ContextHandle, Ordinal};
use super::retired::Retired;

/// The contexts of this process, by device.
static OPEN: Mutex<BTreeMap<u32, Weak<Context>>> = Mutex::new(BTreeMap::new());

/// A device's primary context: one for a process, which other libraries in it share.
pub(super) struct Context {
    pub(super) calls: &'static Calls,
    pub(super) ordinal: Ordinal,
    pub(super) id: DeviceId,
    pub(super) index: u32,
    pub(super) exports_descriptors: bool,
    pub(super) retired: Retired,
    /// `None` only while it is dropped.
    handle: Option<ContextHandle>,
}

impl Context {
    fn open(index: u32) -> Result<Self, DeviceError> {
        let calls = Calls::loaded()?;
        let ordinal = calls.device(index)?;
        Ok(Context {
            calls,
            ordinal,
            id: calls.device_id(ordinal)?,
            index,
            exports_descriptors: calls.has(ordinal, attribute::HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
            retired: Retired::new(calls),
            handle: Some(calls.retain(ordinal)?),
        })
    }

    /// Makes this the calling thread's context; before every call that depends on it, since others may have set theirs.
    pub(super) fn bind(&self) -> Result<(), DeviceError> {
        self.handle
            .as_ref()
            .map_or(Ok(()), |handle| self.calls.set_current(handle))
    }

    /// Refuses what is on another device.
    pub(super) fn check_same(&self, what: &'static str, other: &Context) -> Result<(), DeviceError> {
        if self.id == other.id {
            return Ok(());
        }
        Err(DeviceError::WrongDevice {
            what,
            expected: self.id,
            found: other.id,
        })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let bound = self.bind();
        // Memory that is still in use is left to the process's end, and the context with it: its release might wait.
        if bound.is_ok()
            && self.retired.sweep()
            && let Some(handle) = self.handle.take()
        {
            let _ = self.calls.release(handle, self.ordinal);
        }
    }
}

/// A device of this machine; clones are the same device. The primary context is let go with the last of them, and of what
/// was made on it.
#[derive(Clone)]
pub struct Gpu {
    pub(super) context: Arc<Context>,
}

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gpu({}, {})", self.context.index, self.context.id)
    }
}

impl Gpu {
    /// Opens the device with this number, counted from 0 as the driver counts those that are visible, and makes it the
    /// calling thread's current one. Never panics, whatever is installed.
    ///
    /// # Errors
    /// [`DeviceError::Unavailable`] without a driver that has all functions, [`DeviceError::NoDevice`],
    /// [`DeviceError::Call`].
    pub fn open(index: u32) -> Result<Self, DeviceError> {
        let mut open = OPEN.lock();
        let context = match open.get(&index).and_then(Weak::upgrade) {
            Some(context) => context,
            None => {
                let context = Arc::new(Context::open(index)?);
                open.insert(index, Arc::downgrade(&context));
                context
            }
        };
        drop(open);
        context.bind()?;
        Ok(Gpu { context })
    }

    /// The number it was opened by.
    pub fn index(&self) -> u32 {
        self.context.index
    }

    /// The same in every process of this host.
    pub fn id(&self) -> DeviceId {
        self.context.id
    }

    /// Whether its memory can travel to other processes as a file descriptor; otherwise by the driver's older handles.
    pub fn exports_descriptors(&self) -> bool {
        self.context.exports_descriptors
    }

    /// Makes it the calling thread's current device, for libraries that go by that.
    ///
    /// # Errors
    /// [`DeviceError::Call`].
    pub fn bind(&self) -> Result<(), DeviceError> {
        self.context.bind()
    }

    /// Free bytes and all bytes of its memory.
    ///
    /// # Errors
    /// [`DeviceError::Call`].
    pub fn memory_bytes(&self) -> Result<(usize, usize), DeviceError> {
        self.context.bind()?;
        self.context.calls.memory_info()
    }

    /// Gives back what was dropped while the device was still busy with it, as far as it is done by now. Never waits;
    /// whoever takes memory or drops it does the same.
    pub fn sweep(&self) {
        if self.context.bind().is_ok() {
            self.context.retired.sweep();
        }
    }
}
