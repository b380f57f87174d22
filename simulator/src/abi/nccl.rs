//! The functions of NCCL.
#![allow(unsafe_code)] // exports functions by name

use std::ffi::{CStr, c_char, c_int};

use super::exported;
use crate::calls::{self, Asked, argument, cuda};
use crate::code::Cu;
use crate::communicator::{self, Blocking, INVALID_ARGUMENT};
use crate::context;
use crate::ffi::{In, Out};
use crate::rendezvous::Verb;
use crate::shared::Address;

/// NCCL 2.28.9.
const VERSION: c_int = 22809;
const CONFIG_MAGIC: u32 = 0xcafe_beef;
const OF_BOARD: u64 = 0x64_7261_6f62;

/// `ncclUniqueId`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct UniqueId {
    what: u64,
    address: Address,
    rest: [u64; 13],
}

/// The first fields of `ncclConfig_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Config {
    size: usize,
    magic: u32,
    version: u32,
    blocking: c_int,
}

const _: () = assert!(size_of::<UniqueId>() == 128);

fn blocking(config: &In<Config>) -> Cu<Blocking> {
    let Ok(config) = config.get() else {
        return Ok(Blocking::Yes);
    };
    if config.magic != CONFIG_MAGIC || config.size < size_of::<Config>() || config.version < 21400 {
        return Err(INVALID_ARGUMENT);
    }
    match config.blocking {
        0 => Ok(Blocking::No),
        1 | c_int::MIN => Ok(Blocking::Yes),
        _ => Err(INVALID_ARGUMENT),
    }
}

fn told(code: u32) -> &'static CStr {
    match code {
        0 => c"no error",
        1 => c"unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        2 => c"unhandled system error (run with NCCL_DEBUG=INFO for details)",
        3 => c"internal error - please report this issue to the NCCL developers",
        4 => c"invalid argument (run with NCCL_DEBUG=WARN for details)",
        5 => c"invalid usage (run with NCCL_DEBUG=WARN for details)",
        6 => c"remote process exited or there was a network error",
        7 => c"NCCL operation in progress",
        _ => c"unknown result code",
    }
}

// SAFETY: this library replaces NCCL too, so no other library of the process may export the name.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ncclGetErrorString(code: u32) -> *const c_char {
    told(code).as_ptr()
}

exported! {
    fn ncclGetVersion(to: Out<c_int>) {
        argument(to.set(VERSION))
    }

    fn ncclGetUniqueId(to: Out<UniqueId>) {
        argument(to.set(UniqueId {
            what: OF_BOARD,
            address: communicator::new_board()?,
            rest: [0; 13],
        }))
    }

    fn ncclCommInitRankConfig(to: Out<u64>, ranks: c_int, id: UniqueId, rank: c_int, config: In<Config>) {
        cuda(context::current_device())?;
        if id.what != OF_BOARD {
            return Err(INVALID_ARGUMENT);
        }
        let ranks = argument(usize::try_from(ranks).map_err(|_| INVALID_ARGUMENT))?;
        let rank = argument(usize::try_from(rank).map_err(|_| INVALID_ARGUMENT))?;
        let communicator = communicator::join(id.address, ranks, rank, blocking(&config)?)?;
        argument(to.set(communicator.handle))?;
        calls::joined(communicator)
    }

    fn ncclCommGetAsyncError(communicator: u64, to: Out<u32>) {
        argument(to.set(communicator::find(communicator)?.condition()))
    }

    fn ncclCommFinalize(communicator: u64) {
        let communicator = communicator::find(communicator)?;
        communicator.finalize()?;
        calls::progress(communicator.blocking)
    }

    fn ncclCommDestroy(communicator: u64) {
        communicator::find(communicator)?.destroy();
        Ok(())
    }

    fn ncclCommAbort(communicator: u64) {
        communicator::find(communicator)?.abort();
        Ok(())
    }

    fn ncclGroupStart() {
        calls::start()
    }

    fn ncclGroupEnd() {
        calls::end()
    }

    fn ncclSend(send: u64, count: usize, elements: u32, peer: c_int, communicator: u64, stream: u64) {
        Asked { verb: Verb::Send, send, receive: 0, count, elements, reduction: 0, peer }.issue(communicator, stream)
    }

    fn ncclRecv(receive: u64, count: usize, elements: u32, peer: c_int, communicator: u64, stream: u64) {
        Asked { verb: Verb::Receive, send: 0, receive, count, elements, reduction: 0, peer }.issue(communicator, stream)
    }

    fn ncclAllReduce(
        send: u64,
        receive: u64,
        count: usize,
        elements: u32,
        reduction: u32,
        communicator: u64,
        stream: u64,
    ) {
        Asked { verb: Verb::AllReduce, send, receive, count, elements, reduction, peer: 0 }.issue(communicator, stream)
    }

    fn ncclReduceScatter(
        send: u64,
        receive: u64,
        count: usize,
        elements: u32,
        reduction: u32,
        communicator: u64,
        stream: u64,
    ) {
        Asked { verb: Verb::ReduceScatter, send, receive, count, elements, reduction, peer: 0 }.issue(communicator, stream)
    }

    fn ncclAllGather(send: u64, receive: u64, count: usize, elements: u32, communicator: u64, stream: u64) {
        Asked { verb: Verb::AllGather, send, receive, count, elements, reduction: 0, peer: 0 }.issue(communicator, stream)
    }

    fn ncclBroadcast(
        send: u64,
        receive: u64,
        count: usize,
        elements: u32,
        root: c_int,
        communicator: u64,
        stream: u64,
    ) {
        Asked { verb: Verb::Broadcast, send, receive, count, elements, reduction: 0, peer: root }.issue(communicator, stream)
    }

    fn ncclReduce(
        send: u64,
        receive: u64,
        count: usize,
        elements: u32,
        reduction: u32,
        root: c_int,
        communicator: u64,
        stream: u64,
    ) {
        Asked { verb: Verb::Reduce, send, receive, count, elements, reduction, peer: root }.issue(communicator, stream)
    }
}
