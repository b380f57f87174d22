//! Allocations, their bytes, and the operations that use them.
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

/// The call that made an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `cuMemAlloc`.
    Plain,
    /// `cuMemAllocAsync`: memory of the pool, which a legacy handle cannot export.
    Pool,
    /// `cuMemCreate`; `exportable` says whether a descriptor can export it.
    Physical { exportable: bool },
    /// `cuMemHostAlloc`.
    Pinned,
    /// `cuMemHostRegister`.
    Registered,
    /// `cuIpcOpenMemHandle`.
    Imported,
}

/// Memory of a device, or memory of the host that the device can reach.
#[derive(Debug)]
pub(crate) struct Allocation {
    shared: Shared,
    /// The address of the host's own bytes, if they are registered; other bytes follow the ledger.
    registered: Option<NonNull<u8>>,
    /// The identity of these bytes in all processes that have them: the memory, and their offset in it.
    pub(crate) identity: (u64, u64),
    pub(crate) len: u64,
    pub(crate) kind: Kind,
    pub(crate) device: u32,
    charged: bool,
    /// The number of enqueued operations that have not ended.
    pending: AtomicU64,
    /// True if other processes may have the allocation.
    between_processes: AtomicBool,
}

// SAFETY: the registered bytes are used only as the C caller promised, and only while they are registered.
unsafe impl Send for Allocation {}
// SAFETY: as for `Send`.
unsafe impl Sync for Allocation {}

static USED: LazyLock<Mutex<HashMap<u32, u64>>> = LazyLock::new(Mutex::default);

/// Returns the bytes of a device that this process has allocated.
pub(crate) fn used_bytes(device: u32) -> u64 {
    USED.lock().get(&device).copied().unwrap_or(0)
}

impl Allocation {
    /// Allocates memory, all zero.
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

    /// Registers the host's own bytes. Their ledger is separate memory.
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

    /// Imports another process's allocation.
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
        // Memory without a file behind it can be used only by this process.
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

    /// Returns the memory that holds the ledger and, unless they are registered, the bytes.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Returns the address at which another process finds the allocation.
    pub(crate) fn export(&self) -> Address {
        self.go_between_processes();
        self.shared.address()
    }

    /// Returns a descriptor of the allocation for another process.
    pub(crate) fn export_fd(&self) -> io::Result<std::fs::File> {
        self.go_between_processes();
        self.shared.reopen()
    }

    /// Notes that other processes may have the allocation from now on; they learn what the host has seen so far.
    fn go_between_processes(&self) {
        self.between_processes.store(true, Ordering::Relaxed);
        ledger::observe(&self.shared, &host::seen());
    }

    pub(crate) fn is_between_processes(&self) -> bool {
        self.between_processes.load(Ordering::Relaxed)
    }

    /// Whether its bytes may be written outside this process's streams: by another process, or by the host.
    pub(crate) fn is_written_by_others(&self) -> bool {
        self.is_between_processes() || matches!(self.kind, Kind::Pinned | Kind::Registered)
    }

    pub(crate) fn pending(&self) -> u64 {
        self.pending.load(Ordering::Relaxed)
    }

    /// Returns the host's address of these bytes if they are inside the allocation.
    pub(crate) fn pointer(&self, offset: u64, len: u64) -> Option<NonNull<u8>> {
        offset.checked_add(len).filter(|end| *end <= self.len)?;
        let (offset, len) = (usize::try_from(offset).ok()?, usize::try_from(len).ok()?);
        match self.registered {
            // SAFETY: the offset is inside the registered bytes.
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
    /// Appends the bytes to a vector.
    pub(crate) fn read(&self, into: &mut Vec<u8>) {
        let Some(from) = self.allocation.pointer(self.offset, self.len) else {
            return;
        };
        // SAFETY: the bytes are mapped. Streams that race for them read arbitrary bytes, as on a device, and the race
        // is reported.
        let bytes = unsafe { std::slice::from_raw_parts(from.as_ptr(), self.len as usize) };
        into.extend_from_slice(bytes);
    }

    /// Writes the bytes, at most as many as the span has.
    pub(crate) fn write(&self, bytes: &[u8]) {
        let len = self.len.min(bytes.len() as u64);
        if let Some(to) = self.allocation.pointer(self.offset, len) {
            // SAFETY: the bytes are mapped, and `bytes` is a copy that does not overlap them.
            unsafe { to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), len as usize) };
        }
    }

    /// Returns these bytes as an aligned atomic word, which other threads may watch and write concurrently.
    pub(crate) fn word32(&self) -> Option<&AtomicU32> {
        let at = self.allocation.pointer(self.offset, 4)?;
        // SAFETY: the word is mapped, its alignment is checked, and it is used only as an atomic.
        at.cast::<u32>()
            .is_aligned()
            .then(|| unsafe { AtomicU32::from_ptr(at.as_ptr().cast()) })
    }
}

/// Returns all bytes of some spans, one after the other.
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

/// Bytes that an enqueued operation will read or write. They stay allocated until it ends.
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

    /// Returns one use for each span.
    pub(crate) fn all(spans: &[Span], intent: Intent) -> impl Iterator<Item = Use> {
        spans.iter().map(move |span| Use::new(span, intent))
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        self.span.allocation.pending.fetch_sub(1, Ordering::Relaxed);
    }
}
