//! A communicator of NCCL, as one rank has it: non-blocking, so that no call waits for another rank.
//!
//! - `NCCL-1` every operation is launched on one stream, by one thread at a time: the owner of the `Comm`.
//! - `NCCL-2` memory that an operation was given is kept until NCCL has enqueued the operation ([`CommState::Ready`]);
//!   memory that is dropped after that is released when the device is done with it.
#![allow(unsafe_code)] // calls NCCL

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;

use cudarc::nccl::sys::{ncclConfig_t, ncclDataType_t, ncclRedOp_t, ncclUniqueId};
use selvedge_channels::device::{Gpu, Span, SpanMut, Stream};

use super::library::{Calls, Handle, IN_PROGRESS, REMOTE, Reduction};
use crate::error::CommError;

/// The number of bytes of an id, which names a communicator to its ranks.
pub(super) const ID_BYTES: usize = 128;

/// The state of a communicator's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommState {
    Ready,
    InProgress,
    /// Another rank cannot be reached, usually because its process has ended; the group reports that.
    Unreachable,
}

/// A rank's communicator. Dropping it aborts it, which waits for no other rank.
pub(super) struct Comm {
    calls: &'static Calls,
    gpu: Gpu,
    /// Null after [`destroy`](Comm::destroy).
    raw: Handle,
}

// SAFETY: NCCL's communicators belong to no thread, and one thread at a time uses this one (NCCL-1).
unsafe impl Send for Comm {}

/// Returns a new id for a communicator, which rank 0 creates.
pub(super) fn unique_id() -> Result<[u8; ID_BYTES], CommError> {
    let calls = Calls::loaded().map_err(unavailable)?;
    let mut id = ncclUniqueId {
        internal: [0; ID_BYTES],
    };
    // SAFETY: writes one id where there is room for one.
    let code = unsafe { (calls.functions.unique_id)(&raw mut id) };
    calls.check("ncclGetUniqueId", code)?;
    Ok(id.internal.map(c_char::cast_unsigned))
}

pub(super) fn unavailable(error: selvedge_channels::device::Unavailable) -> CommError {
    CommError::Backend {
        backend: super::NAME,
        reason: error.to_string(),
    }
}

/// Returns NCCL's default configuration, except that calls do not block. Its bytes are `NCCL_CONFIG_INITIALIZER` of
/// `nccl.h`; an older library reads as much of it as it knows.
fn config() -> ncclConfig_t {
    const WORDS: usize = size_of::<ncclConfig_t>() / size_of::<c_int>();
    // SAFETY: the structure consists of numbers and pointers, for which all bits are allowed.
    let mut config: ncclConfig_t = unsafe { std::mem::zeroed() };
    // SAFETY: the structure has as many words, and a larger alignment than a word; it consists of numbers and pointers,
    // for which all bits are allowed.
    let fields = unsafe { &mut *(&raw mut config).cast::<[c_int; WORDS]>() };
    fields.fill(c_int::MIN);
    config.size = size_of::<ncclConfig_t>();
    config.magic = 0xcafe_beef;
    config.version = 2 * 10_000 + 28 * 100 + 9;
    config.blocking = 0;
    config.netName = ptr::null();
    config.commName = ptr::null();
    config
}

impl Comm {
    /// Begins to connect rank `rank` of `ranks`. [`state`](Self::state) tells when the connection is complete.
    pub(super) fn begin(gpu: &Gpu, id: [u8; ID_BYTES], ranks: usize, rank: usize) -> Result<Self, CommError> {
        let calls = Calls::loaded().map_err(unavailable)?;
        gpu.bind()?;
        let id = ncclUniqueId {
            internal: id.map(u8::cast_signed),
        };
        let mut comm = Comm {
            calls,
            gpu: gpu.clone(),
            raw: ptr::null_mut(),
        };
        let mut config = config();
        // SAFETY: writes one handle where there is room for one; the configuration is read meanwhile.
        let code = unsafe {
            (calls.functions.init)(
                &raw mut comm.raw,
                ranks as c_int,
                id,
                rank as c_int,
                &raw mut config,
            )
        };
        calls.check("ncclCommInitRankConfig", code)?;
        Ok(comm)
    }

    /// Returns whether the pending calls are over, and any error since the last call.
    pub(super) fn state(&self) -> Result<CommState, CommError> {
        self.gpu.bind()?;
        let mut state = 0;
        // SAFETY: the communicator lives as long as `self`; writes one number where there is room for one.
        let code = unsafe { (self.calls.functions.async_error)(self.raw, &raw mut state) };
        self.calls.check("ncclCommGetAsyncError", code)?;
        match state {
            IN_PROGRESS => Ok(CommState::InProgress),
            REMOTE => Ok(CommState::Unreachable),
            _ => self
                .calls
                .check("ncclCommGetAsyncError", state)
                .map(|()| CommState::Ready),
        }
    }

    /// Whether another rank cannot be reached.
    pub(super) fn is_unreachable(&self) -> bool {
        matches!(self.state(), Ok(CommState::Unreachable))
    }

    /// Launches all calls that `issue` makes as one operation on `stream`.
    pub(super) fn group<'c>(
        &'c self,
        stream: &'c Stream,
        issue: impl FnOnce(&Launch<'c>) -> Result<(), CommError>,
    ) -> Result<(), CommError> {
        self.gpu.bind()?;
        // SAFETY: the call takes no arguments.
        let code = unsafe { (self.calls.functions.group_start)() };
        self.calls.check("ncclGroupStart", code)?;
        let open = OpenGroup(self.calls);
        let issued = issue(&Launch { comm: self, stream });
        let ended = open.end();
        issued.and(ended)
    }

    /// Begins to finalize, after which the ranks need nothing of each other any more. [`state`](Self::state) tells when
    /// that is complete.
    pub(super) fn finalize(&self) -> Result<(), CommError> {
        self.gpu.bind()?;
        // SAFETY: the communicator lives as long as `self`.
        let code = unsafe { (self.calls.functions.finalize)(self.raw) };
        self.calls.check("ncclCommFinalize", code)
    }

    /// Destroys the communicator, after [`finalize`](Self::finalize).
    pub(super) fn destroy(mut self) -> Result<(), CommError> {
        self.gpu.bind()?;
        let raw = std::mem::replace(&mut self.raw, ptr::null_mut());
        // SAFETY: `self` owns the communicator, which is not used again.
        let code = unsafe { (self.calls.functions.destroy)(raw) };
        self.calls.check("ncclCommDestroy", code)
    }
}

impl Drop for Comm {
    fn drop(&mut self) {
        if !self.raw.is_null() && self.gpu.bind().is_ok() {
            // SAFETY: `self` owns the communicator, which is not used again; all its operations in flight end.
            unsafe { (self.calls.functions.abort)(self.raw) };
        }
    }
}

/// A group that was begun on this thread. A drop ends it: a panic between begin and end must not leave it open, because all later calls
/// of the thread, also of other communicators, would belong to it and never start.
struct OpenGroup(&'static Calls);

impl OpenGroup {
    fn end(self) -> Result<(), CommError> {
        let calls = self.0;
        std::mem::forget(self);
        Self::end_with(calls)
    }

    fn end_with(calls: &Calls) -> Result<(), CommError> {
        // SAFETY: the call takes no arguments, and ends the group that was begun on this thread.
        let code = unsafe { (calls.functions.group_end)() };
        calls.check("ncclGroupEnd", code)
    }
}

impl Drop for OpenGroup {
    fn drop(&mut self) {
        // The panic is what the caller learns.
        let _ = Self::end_with(self.0);
    }
}

/// The calls that belong to one group.
pub(super) struct Launch<'c> {
    comm: &'c Comm,
    stream: &'c Stream,
}

fn from(span: Span<'_>) -> *const c_void {
    ptr::without_provenance(span.address() as usize)
}

fn to(span: &SpanMut<'_>) -> *mut c_void {
    ptr::without_provenance_mut(span.address() as usize)
}

// SAFETY of the calls below: communicator and stream live (`Launch` borrows them); the addresses are the device's,
// inside allocations of the stated length (each `count` is checked against the spans by `counted`), and remain valid
// until the device is done with them (NCCL-2). NCCL refuses values that it does not know with an error code.
impl Launch<'_> {
    fn check(&self, call: &'static str, code: c_int) -> Result<(), CommError> {
        self.comm.calls.check(call, code)
    }

    pub(super) fn send(&self, what: Span<'_>, peer: usize) -> Result<(), CommError> {
        let (bytes, kind) = (what.len_bytes(), ncclDataType_t::ncclUint8 as c_int);
        let (comm, stream) = (self.comm.raw, self.stream.as_raw());
        // SAFETY: above.
        let code =
            unsafe { (self.comm.calls.functions.send)(from(what), bytes, kind, peer as c_int, comm, stream) };
        self.check("ncclSend", code)
    }

    pub(super) fn recv(&self, what: &SpanMut<'_>, peer: usize) -> Result<(), CommError> {
        let (bytes, kind) = (what.len_bytes(), ncclDataType_t::ncclUint8 as c_int);
        let (comm, stream) = (self.comm.raw, self.stream.as_raw());
        // SAFETY: above.
        let code =
            unsafe { (self.comm.calls.functions.recv)(to(what), bytes, kind, peer as c_int, comm, stream) };
        self.check("ncclRecv", code)
    }

    pub(super) fn all_reduce(
        &self,
        a: Span<'_>,
        b: &SpanMut<'_>,
        how: NcclReduction,
    ) -> Result<(), CommError> {
        let count = how.counted(a.len_bytes(), b.len_bytes())?;
        self.reduce_alike(
            "ncclAllReduce",
            self.comm.calls.functions.all_reduce,
            (a, b),
            count,
            how,
        )
    }

    /// Reduces `a` of all ranks; `b` gets this rank's part of the result.
    pub(super) fn reduce_scatter(
        &self,
        a: Span<'_>,
        b: &SpanMut<'_>,
        ranks: usize,
        how: NcclReduction,
    ) -> Result<(), CommError> {
        let count = how.counted(a.len_bytes(), b.len_bytes() * ranks)? / ranks;
        let function = self.comm.calls.functions.reduce_scatter;
        self.reduce_alike("ncclReduceScatter", function, (a, b), count, how)
    }

    /// Calls a reduction in which all ranks have the same role.
    fn reduce_alike(
        &self,
        call: &'static str,
        function: Reduction,
        (a, b): (Span<'_>, &SpanMut<'_>),
        count: usize,
        how: NcclReduction,
    ) -> Result<(), CommError> {
        let (kind, op) = (how.kind as c_int, how.op as c_int);
        let (comm, stream) = (self.comm.raw, self.stream.as_raw());
        // SAFETY: above.
        let code = unsafe { function(from(a), to(b), count, kind, op, comm, stream) };
        self.check(call, code)
    }

    /// Reduces `a` of all ranks into `b` of the root; the other ranks have no `b`.
    pub(super) fn reduce(
        &self,
        a: Span<'_>,
        b: Option<&SpanMut<'_>>,
        root: usize,
        how: NcclReduction,
    ) -> Result<(), CommError> {
        let count = how.counted(a.len_bytes(), b.map_or(a.len_bytes(), SpanMut::len_bytes))?;
        let (comm, stream) = (self.comm.raw, self.stream.as_raw());
        let b = b.map_or(ptr::null_mut(), to);
        // SAFETY: above.
        let code = unsafe {
            (self.comm.calls.functions.reduce)(
                from(a),
                b,
                count,
                how.kind as c_int,
                how.op as c_int,
                root as c_int,
                comm,
                stream,
            )
        };
        self.check("ncclReduce", code)
    }

    /// Gathers `a` of all ranks into `b`, which has room for all of them.
    pub(super) fn all_gather(&self, a: Span<'_>, b: &SpanMut<'_>, ranks: usize) -> Result<(), CommError> {
        same(a.len_bytes() * ranks, b.len_bytes())?;
        let (bytes, kind) = (a.len_bytes(), ncclDataType_t::ncclUint8 as c_int);
        let (comm, stream) = (self.comm.raw, self.stream.as_raw());
        // SAFETY: above.
        let code =
            unsafe { (self.comm.calls.functions.all_gather)(from(a), to(b), bytes, kind, comm, stream) };
        self.check("ncclAllGather", code)
    }

    /// Broadcasts `a` of the root into `b`; the other ranks have no `a`.
    pub(super) fn broadcast(
        &self,
        a: Option<Span<'_>>,
        b: &SpanMut<'_>,
        root: usize,
    ) -> Result<(), CommError> {
        same(a.map_or(b.len_bytes(), |a| a.len_bytes()), b.len_bytes())?;
        let (bytes, kind) = (b.len_bytes(), ncclDataType_t::ncclUint8 as c_int);
        let (comm, stream) = (self.comm.raw, self.stream.as_raw());
        let a = a.map_or(to(b).cast_const(), from);
        // SAFETY: above.
        let code = unsafe {
            (self.comm.calls.functions.broadcast)(a, to(b), bytes, kind, root as c_int, comm, stream)
        };
        self.check("ncclBroadcast", code)
    }
}

/// A reduction in NCCL's terms.
#[derive(Clone, Copy, Debug)]
pub(super) struct NcclReduction {
    pub(super) kind: ncclDataType_t,
    pub(super) op: ncclRedOp_t,
    /// The number of bytes of an element.
    pub(super) size: usize,
}

impl NcclReduction {
    /// Returns the number of elements in two places of equal length.
    fn counted(self, one: usize, other: usize) -> Result<usize, CommError> {
        same(one, other)?;
        Ok(one / self.size.max(1))
    }
}

fn same(one: usize, other: usize) -> Result<(), CommError> {
    if one == other {
        return Ok(());
    }
    Err(CommError::Corrupt {
        what: "a result of another length than what is brought",
    })
}

const _: () = assert!(size_of::<ncclUniqueId>() == ID_BYTES);
const _: () = assert!(size_of::<c_uint>() == size_of::<c_int>());
