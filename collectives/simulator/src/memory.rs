//! Allocations, their bytes, and who uses them.
#![allow(unsafe_code)] // copies bytes

use std::collections::HashMap;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;

use crate::code::{Cu, INVALID_VALUE, OUT_OF_MEMORY};
use crate::history::Intent;
use crate::ledger::LEDGER_BYTES;
use crate::shared::{Address, Shared};
use crate::{host, ledger, mapping, settings};

/// Which call made an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `cuMemAlloc`.
    Plain,
    /// `cuMemAllocAsync`: of the pool, which cannot be exported by a legacy handle.
    Pool,
    /// `cuMemCreate`; whether it may be exported as a descriptor.
    Physical { exportable: bool },
    /// `cuMemHostAlloc`.
    Pinned,
    /// `cuMemHostRegister`.
    Registered,
    /// `cuIpcOpenMemHandle`.
    Imported,
}

/// Memory of a device, or of the host where the device can reach it.
#[derive(Debug)]
pub(crate) struct Allocation {
    shared: Shared,
    /// The host's own bytes, where they are not behind the ledger.
    registered: Option<NonNull<u8>>,
    /// What all processes that have these bytes know them by: the memory, and where in it they begin.
    pub(crate) identity: (u64, u64),
    pub(crate) len: u64,
    pub(crate) kind: Kind,
    pub(crate) device: u32,
    charged: bool,
    /// Operations enqueued that have not ended.
    pending: AtomicU64,
    /// Other processes may have it.
    between_processes: AtomicBool,
}

// SAFETY: the registered bytes are used only as the C caller promised for as long as they are registered.
unsafe impl Send for Allocation {}
// SAFETY: as above.
unsafe impl Sync for Allocation {}

static USED: LazyLock<Mutex<HashMap<u32, u64>>> = LazyLock::new(Mutex::default);

/// Bytes of a device that this process has allocated.
pub(crate) fn used_bytes(device: u32) -> u64 {
    USED.lock().get(&device).copied().unwrap_or(0)
}

impl Allocation {
    /// New memory, all zero.
    pub(crate) fn create(kind: Kind, device: u32, len: u64) -> Cu<Arc<Self>> {
        if len == 0 {
            return Err(INVALID_VALUE);
        }
        let charged = kind != Kind::Pinned;
        let whole = usize::try_from(len)
            .ok()
            .and_then(|len| len.checked_add(LEDGER_BYTES))
            .ok_or(OUT_OF_MEMORY)?;
        if charged {
            let mut used = USED.lock();
            let used = used.entry(device).or_default();
            *used = used
                .checked_add(len)
                .filter(|sum| *sum <= settings::get().memory_bytes)
                .ok_or(OUT_OF_MEMORY)?;
        }
        let Ok(shared) = Shared::create(whole) else {
            give_back(device, len, charged);
            return Err(OUT_OF_MEMORY);
        };
        Ok(Arc::new(Self::new(shared, None, len, kind, device, charged)))
    }

    /// The host's own bytes. Their ledger is beside them.
    pub(crate) fn register(address: NonNull<u8>, len: u64) -> Cu<Arc<Self>> {
        let shared = Shared::create(LEDGER_BYTES).map_err(|_| OUT_OF_MEMORY)?;
        Ok(Arc::new(Self::new(
            shared,
            Some(address),
            len,
            Kind::Registered,
            0,
            false,
        )))
    }

    /// Another process's allocation.
    pub(crate) fn import(shared: Shared, kind: Kind, device: u32) -> Cu<Arc<Self>> {
        let len = shared.len().checked_sub(LEDGER_BYTES).ok_or(INVALID_VALUE)?;
        let allocation = Self::new(shared, None, len as u64, kind, device, false);
        allocation.go_between_processes();
        Ok(Arc::new(allocation))
    }

    fn new(
        shared: Shared,
        registered: Option<NonNull<u8>>,
        len: u64,
        kind: Kind,
        device: u32,
        charged: bool,
    ) -> Self {
        // Of memory that no file is behind, only this process can have it.
        let identity = registered
            .and_then(|at| mapping::identity(at.as_ptr() as u64))
            .unwrap_or((shared.address().nonce, 0));
        Allocation {
            shared,
            registered,
            identity,
            len,
            kind,
            device,
            charged,
            pending: AtomicU64::new(0),
            between_processes: AtomicBool::new(false),
        }
    }

    /// The memory that its ledger is in, and its bytes unless they are registered.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Where another process finds it.
    pub(crate) fn export(&self) -> Address {
        self.go_between_processes();
        self.shared.address()
    }

    /// A descriptor of it for another process.
    pub(crate) fn export_fd(&self) -> io::Result<std::fs::File> {
        self.go_between_processes();
        self.shared.reopen()
    }

    /// From now on others may have it; they learn what the host has seen so far.
    fn go_between_processes(&self) {
        self.between_processes.store(true, Ordering::Relaxed);
        ledger::observe(&self.shared, &host::seen());
    }

    pub(crate) fn is_between_processes(&self) -> bool {
        self.between_processes.load(Ordering::Relaxed)
    }

    /// Whether anybody else may write its bytes: another process, or the host.
    pub(crate) fn is_written_by_others(&self) -> bool {
        self.is_between_processes() || matches!(self.kind, Kind::Pinned | Kind::Registered)
    }

    pub(crate) fn pending(&self) -> u64 {
        self.pending.load(Ordering::Relaxed)
    }

    /// The host's address of these bytes, if they are inside.
    pub(crate) fn pointer(&self, offset: u64, len: u64) -> Option<NonNull<u8>> {
        offset.checked_add(len).filter(|end| *end <= self.len)?;
        let (offset, len) = (usize::try_from(offset).ok()?, usize::try_from(len).ok()?);
        match self.registered {
            // SAFETY: inside what was registered.
            Some(base) => Some(unsafe { base.add(offset) }),
            None => self.shared.at(LEDGER_BYTES.checked_add(offset)?, len),
        }
    }
}

fn give_back(device: u32, len: u64, charged: bool) {
    if let Some(used) = USED.lock().get_mut(&device).filter(|_| charged) {
        *used = used.saturating_sub(len);
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        give_back(self.device, self.len, self.charged);
    }
}

/// Bytes of one allocation.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) allocation: Arc<Allocation>,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

impl Span {
    /// Appends the bytes.
    pub(crate) fn read(&self, into: &mut Vec<u8>) {
        let Some(from) = self.allocation.pointer(self.offset, self.len) else {
            return;
        };
        // SAFETY: mapped bytes. Streams that race for them get any bytes, as on a device, and the race is reported.
        let bytes = unsafe { std::slice::from_raw_parts(from.as_ptr(), self.len as usize) };
        into.extend_from_slice(bytes);
    }

    /// Writes the bytes, as many as there are.
    pub(crate) fn write(&self, bytes: &[u8]) {
        let len = self.len.min(bytes.len() as u64);
        if let Some(to) = self.allocation.pointer(self.offset, len) {
            // SAFETY: mapped bytes, of which `bytes` is no part: it is a copy.
            unsafe { to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), len as usize) };
        }
    }

    /// The aligned word that these bytes are, to be watched and written while others do the same.
    pub(crate) fn word32(&self) -> Option<&AtomicU32> {
        let at = self.allocation.pointer(self.offset, 4)?;
        // SAFETY: mapped, aligned since the address was, and only used as an atomic.
        at.cast::<u32>()
            .is_aligned()
            .then(|| unsafe { AtomicU32::from_ptr(at.as_ptr().cast()) })
    }

    /// As [`word32`](Self::word32), of eight bytes.
    pub(crate) fn word64(&self) -> Option<&AtomicU64> {
        let at = self.allocation.pointer(self.offset, 8)?;
        // SAFETY: as above.
        at.cast::<u64>()
            .is_aligned()
            .then(|| unsafe { AtomicU64::from_ptr(at.as_ptr().cast()) })
    }
}

/// All bytes of some spans, one after the other.
pub(crate) fn read(spans: &[Span]) -> Vec<u8> {
    let mut bytes = Vec::new();
    spans.iter().for_each(|span| span.read(&mut bytes));
    bytes
}

/// Writes bytes into some spans, one after the other.
pub(crate) fn write(spans: &[Span], mut bytes: &[u8]) {
    for span in spans {
        span.write(bytes);
        bytes = usize::try_from(span.len)
            .ok()
            .and_then(|len| bytes.get(len..))
            .unwrap_or(&[]);
    }
}

/// Bytes that an enqueued operation is going to read or write. They stay allocated until it ends.
#[derive(Debug)]
pub(crate) struct Use {
    pub(crate) span: Span,
    pub(crate) intent: Intent,
}

impl Use {
    pub(crate) fn new(span: &Span, intent: Intent) -> Self {
        span.allocation.pending.fetch_add(1, Ordering::Relaxed);
        Use {
            span: span.clone(),
            intent,
        }
    }

    /// One for each span.
    pub(crate) fn all(spans: &[Span], intent: Intent) -> impl Iterator<Item = Use> {
        spans.iter().map(move |span| Use::new(span, intent))
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        self.span.allocation.pending.fetch_sub(1, Ordering::Relaxed);
    }
}
