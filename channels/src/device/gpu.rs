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

    /// Its handle; there is one until it is dropped.
    pub(super) fn handle(&self) -> Result<&ContextHandle, DeviceError> {
        self.handle.as_ref().ok_or(DeviceError::Call {
            call: "cuCtxSetCurrent",
            code: 201,
            name: String::new(),
        })
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
        if let Some(handle) = self.handle.take() {
            LEFT.lock().push(Left {
                calls: self.calls,
                ordinal: self.ordinal,
                retired: std::mem::replace(&mut self.retired, Retired::new(self.calls)),
                handle,
            });
        }
        sweep_left();
    }
}

/// A context that nobody has any more, while the device may still be busy with what it was left: to release it might wait.
struct Left {
    calls: &'static Calls,
    ordinal: Ordinal,
    retired: Retired,
    handle: ContextHandle,
}

static LEFT: Mutex<Vec<Left>> = Mutex::new(Vec::new());

fn sweep_left() {
    // What is given back may be another library's, whose code comes back here: the lock is not held.
    let left = std::mem::take(&mut *LEFT.lock());
    for context in left {
        let bound = context.calls.set_current(&context.handle);
        if bound.is_ok() && context.retired.sweep() {
            context.retired.empty();
            let _ = context.calls.release(context.handle, context.ordinal);
        } else {
            LEFT.lock().push(context);
        }
    }
}

/// Gives back, of every context, what the device is done with, and what is kept for the next copies.
pub(super) fn sweep_contexts() {
    let open: Vec<_> = OPEN.lock().values().filter_map(Weak::upgrade).collect();
    for context in open {
        if context.bind().is_ok() {
            context.retired.sweep();
            context.retired.empty();
        }
    }
    sweep_left();
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
        sweep_left();
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

    /// Opens the device that has this id, wherever this process counts it.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`DeviceError::NoDevice`] also when this process does not see it.
    pub fn with_id(id: DeviceId) -> Result<Self, DeviceError> {
        let calls = Calls::loaded()?;
        let mut index = 0;
        while calls.device_id(calls.device(index)?)? != id {
            index += 1;
        }
        Gpu::open(index)
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
}
