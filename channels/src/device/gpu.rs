//! Open devices and their contexts.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

use cudarc::driver::sys::{CUdevice, CUdevice_attribute};
use parking_lot::Mutex;

use super::calls::Calls;
use super::error::{DeviceError, DeviceId};
use super::handles::ContextHandle;
use super::reclaimer::Reclaimer;

/// The attribute of a device whose memory can be exported as a file descriptor.
const DESCRIPTORS: CUdevice_attribute =
    CUdevice_attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED;

/// The open contexts of this process, by device number.
static OPEN: Mutex<BTreeMap<u32, Weak<Context>>> = Mutex::new(BTreeMap::new());

/// The primary context of a device. A process has one for each device, shared with the other libraries in the process.
pub(super) struct Context {
    pub(super) calls: &'static Calls,
    pub(super) ordinal: CUdevice,
    pub(super) id: DeviceId,
    pub(super) index: u32,
    pub(super) exports_descriptors: bool,
    pub(super) reclaimer: Reclaimer,
    /// `None` only during the drop.
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
            exports_descriptors: calls.has(ordinal, DESCRIPTORS),
            reclaimer: Reclaimer::new(calls),
            handle: Some(calls.retain(ordinal)?),
        })
    }

    /// Makes this the current context of the calling thread. Called before every driver call that depends on it, since
    /// another library may have made its own context current.
    pub(super) fn bind(&self) -> Result<(), DeviceError> {
        self.handle
            .as_ref()
            .map_or(Ok(()), |handle| self.calls.set_current(handle))
    }

    /// The handle, which exists until the drop.
    pub(super) fn handle(&self) -> Result<&ContextHandle, DeviceError> {
        self.handle.as_ref().ok_or(DeviceError::Call {
            call: "cuCtxSetCurrent",
            code: 201,
            name: String::new(),
        })
    }

    /// Returns an error if `other` is on another device.
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
                reclaimer: std::mem::replace(&mut self.reclaimer, Reclaimer::new(self.calls)),
                handle,
            });
        }
        reclaim_left();
    }
}

/// A context without users, whose device may still have work in flight. Its release is deferred, since it might wait
/// for that work.
struct Left {
    calls: &'static Calls,
    ordinal: CUdevice,
    reclaimer: Reclaimer,
    handle: ContextHandle,
}

static LEFT: Mutex<Vec<Left>> = Mutex::new(Vec::new());

fn reclaim_left() {
    // The lock is not held during the release: it may run code of another library, which may call into this module.
    let left = std::mem::take(&mut *LEFT.lock());
    for context in left {
        let bound = context.calls.set_current(&context.handle);
        if bound.is_ok() && context.reclaimer.reclaim() {
            context.reclaimer.empty();
            let _ = context.calls.release(context.handle, context.ordinal);
        } else {
            LEFT.lock().push(context);
        }
    }
}

/// Releases, in every context, the resources that the device no longer uses, and the memory that is kept for later
/// copies.
pub(super) fn reclaim_contexts() {
    let open: Vec<_> = OPEN.lock().values().filter_map(Weak::upgrade).collect();
    for context in open {
        if context.bind().is_ok() {
            context.reclaimer.reclaim();
            context.reclaimer.empty();
        }
    }
    reclaim_left();
}

/// An open device of this machine. Clones refer to the same device. The primary context is released with the last clone
/// and the last object that was created on the device.
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
    /// Opens the device with this number, and makes it the current device of the calling thread. The driver counts the
    /// visible devices from 0. Never panics, for any installed driver.
    ///
    /// # Errors
    /// [`DeviceError::Unavailable`] if there is no driver with all required functions, [`DeviceError::NoDevice`],
    /// [`DeviceError::Call`].
    pub fn open(index: u32) -> Result<Self, DeviceError> {
        reclaim_left();
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

    /// Opens the device with this id, independent of its number in this process.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open). [`DeviceError::NoDevice`] also if the device is not visible to this process.
    pub fn with_id(id: DeviceId) -> Result<Self, DeviceError> {
        let calls = Calls::loaded()?;
        let mut index = 0;
        while calls.device_id(calls.device(index)?)? != id {
            index += 1;
        }
        Gpu::open(index)
    }

    /// The number with which the device was opened.
    pub fn index(&self) -> u32 {
        self.context.index
    }

    /// The identity of the device, the same in every process of this host.
    pub fn id(&self) -> DeviceId {
        self.context.id
    }

    /// Whether memory of the device can be exported as a file descriptor. Otherwise it is shared by the driver's legacy
    /// handles.
    pub fn exports_descriptors(&self) -> bool {
        self.context.exports_descriptors
    }

    /// Makes the device current on the calling thread, for libraries that use the current device.
    ///
    /// # Errors
    /// [`DeviceError::Call`].
    pub fn bind(&self) -> Result<(), DeviceError> {
        self.context.bind()
    }

    /// The free bytes and the total bytes of the device's memory.
    ///
    /// # Errors
    /// [`DeviceError::Call`].
    pub fn memory_bytes(&self) -> Result<(usize, usize), DeviceError> {
        self.context.bind()?;
        self.context.calls.memory_info()
    }
}
