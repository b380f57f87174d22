//! NCCL, called as a C program calls it.

use std::ffi::c_int;
use std::sync::{Arc, LazyLock};

use cudarc::driver::CudaStream;

pub(crate) const SUCCESS: u32 = 0;
pub(crate) const INVALID_ARGUMENT: u32 = 4;
pub(crate) const REMOTE: u32 = 6;
pub(crate) const IN_PROGRESS: u32 = 7;
pub(crate) const FLOAT: u32 = 7;
pub(crate) const SUM: u32 = 0;

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct UniqueId(pub(crate) [u8; 128]);

/// `ncclConfig_t` of 2.28.
#[repr(C)]
struct Config {
    size: usize,
    magic: u32,
    version: u32,
    blocking: c_int,
    rest: [c_int; 24],
}

pub(crate) struct Library(libloading::Library);

pub(crate) static NCCL: LazyLock<Library> =
    LazyLock::new(|| Library(unsafe { libloading::Library::new("libnccl.so.2") }.unwrap()));

impl Library {
    fn function<F: Copy>(&self, name: &str) -> F {
        *unsafe { self.0.get::<F>(name.as_bytes()) }.unwrap()
    }

    pub(crate) fn version(&self) -> c_int {
        let mut version = 0;
        let ask: extern "C" fn(*mut c_int) -> u32 = self.function("ncclGetVersion");
        assert_eq!(ask(&raw mut version), SUCCESS);
        version
    }

    pub(crate) fn unique_id(&self) -> UniqueId {
        let mut id = UniqueId([0; 128]);
        let make: extern "C" fn(*mut UniqueId) -> u32 = self.function("ncclGetUniqueId");
        assert_eq!(make(&raw mut id), SUCCESS);
        id
    }

    /// Joins without waiting for the other ranks.
    pub(crate) fn join(&self, ranks: usize, id: UniqueId, rank: usize) -> Communicator {
        let config = Config {
            size: size_of::<Config>(),
            magic: 0xcafe_beef,
            version: 22809,
            blocking: 0,
            rest: [c_int::MIN; 24],
        };
        let mut handle = 0;
        let join: extern "C" fn(*mut u64, c_int, UniqueId, c_int, *const Config) -> u32 =
            self.function("ncclCommInitRankConfig");
        let code = join(
            &raw mut handle,
            ranks as c_int,
            id,
            rank as c_int,
            &raw const config,
        );
        assert_eq!(code, IN_PROGRESS);
        Communicator(handle)
    }

    /// Joins, and waits for the other ranks.
    pub(crate) fn join_blocking(&self, ranks: usize, id: UniqueId, rank: usize) -> Communicator {
        let mut handle = 0;
        let join: extern "C" fn(*mut u64, c_int, UniqueId, c_int, *const Config) -> u32 =
            self.function("ncclCommInitRankConfig");
        let no_config = std::ptr::null();
        let code = join(&raw mut handle, ranks as c_int, id, rank as c_int, no_config);
        assert_eq!(code, SUCCESS);
        Communicator(handle)
    }

    pub(crate) fn group(&self, calls: impl FnOnce()) -> u32 {
        assert_eq!(
            self.function::<extern "C" fn() -> u32>("ncclGroupStart")(),
            SUCCESS
        );
        calls();
        self.function::<extern "C" fn() -> u32>("ncclGroupEnd")()
    }
}

/// Returns all ranks of a communicator, in this process.
pub(crate) fn ranks(count: usize) -> Vec<Communicator> {
    let id = NCCL.unique_id();
    let all: Vec<_> = (0..count).map(|rank| NCCL.join(count, id, rank)).collect();
    for one in &all {
        assert_eq!(one.condition(), SUCCESS);
    }
    all
}

#[derive(Clone, Copy)]
pub(crate) struct Communicator(u64);

type Message = extern "C" fn(u64, usize, u32, c_int, u64, u64) -> u32;

impl Communicator {
    fn call(&self, name: &str) -> u32 {
        NCCL.function::<extern "C" fn(u64) -> u32>(name)(self.0)
    }

    pub(crate) fn abort(&self) -> u32 {
        self.call("ncclCommAbort")
    }

    pub(crate) fn finalize(&self) -> u32 {
        self.call("ncclCommFinalize")
    }

    pub(crate) fn destroy(&self) -> u32 {
        self.call("ncclCommDestroy")
    }

    /// Returns the result of `ncclCommGetAsyncError`.
    pub(crate) fn condition(&self) -> u32 {
        let mut state = u32::MAX;
        let ask: extern "C" fn(u64, *mut u32) -> u32 = NCCL.function("ncclCommGetAsyncError");
        assert_eq!(ask(self.0, &raw mut state), SUCCESS);
        state
    }

    /// Sends floats.
    pub(crate) fn send(&self, at: u64, count: usize, to: usize, stream: &Arc<CudaStream>) -> u32 {
        let send: Message = NCCL.function("ncclSend");
        send(at, count, FLOAT, to as c_int, self.0, stream.cu_stream() as u64)
    }

    /// Receives floats.
    pub(crate) fn receive(&self, at: u64, count: usize, from: usize, stream: &Arc<CudaStream>) -> u32 {
        let receive: Message = NCCL.function("ncclRecv");
        receive(at, count, FLOAT, from as c_int, self.0, stream.cu_stream() as u64)
    }

    /// Calls a collective that reduces floats to every rank by their sum: `ncclAllReduce` or `ncclReduceScatter`.
    pub(crate) fn reduces(
        &self,
        name: &str,
        from: u64,
        to: u64,
        count: usize,
        stream: &Arc<CudaStream>,
    ) -> u32 {
        let call: extern "C" fn(u64, u64, usize, u32, u32, u64, u64) -> u32 = NCCL.function(name);
        call(from, to, count, FLOAT, SUM, self.0, stream.cu_stream() as u64)
    }

    pub(crate) fn gather(&self, from: u64, to: u64, count: usize, stream: &Arc<CudaStream>) -> u32 {
        let call: extern "C" fn(u64, u64, usize, u32, u64, u64) -> u32 = NCCL.function("ncclAllGather");
        call(from, to, count, FLOAT, self.0, stream.cu_stream() as u64)
    }

    pub(crate) fn broadcast(
        &self,
        from: u64,
        to: u64,
        count: usize,
        root: usize,
        stream: &Arc<CudaStream>,
    ) -> u32 {
        let call: extern "C" fn(u64, u64, usize, u32, c_int, u64, u64) -> u32 =
            NCCL.function("ncclBroadcast");
        call(
            from,
            to,
            count,
            FLOAT,
            root as c_int,
            self.0,
            stream.cu_stream() as u64,
        )
    }

    pub(crate) fn reduce(
        &self,
        from: u64,
        to: u64,
        count: usize,
        root: usize,
        stream: &Arc<CudaStream>,
    ) -> u32 {
        let call: extern "C" fn(u64, u64, usize, u32, u32, c_int, u64, u64) -> u32 =
            NCCL.function("ncclReduce");
        call(
            from,
            to,
            count,
            FLOAT,
            SUM,
            root as c_int,
            self.0,
            stream.cu_stream() as u64,
        )
    }
}
