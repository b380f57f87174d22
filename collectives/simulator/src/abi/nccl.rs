//! NCCL.
#![allow(unsafe_code)] // exports functions by name

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int};
use std::sync::Arc;

use super::exported;
use crate::code::Cu;
use crate::communicator::{
    self, Blocking, Communicator, IN_PROGRESS, INVALID_ARGUMENT, INVALID_USAGE, UNHANDLED_CUDA,
};
use crate::ffi::{In, Out};
use crate::group::Member;
use crate::memory::{self, Kind, Span};
use crate::rendezvous::{Call, Verb};
use crate::shared::Address;
use crate::{context, elements};

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

/// The beginning of `ncclConfig_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Config {
    size: usize,
    magic: u32,
    version: u32,
    blocking: c_int,
}

const _: () = assert!(size_of::<UniqueId>() == 128);

/// Calls between `ncclGroupStart` and `ncclGroupEnd`.
#[derive(Default)]
struct Grouped {
    depth: u32,
    calls: Vec<(Arc<Communicator>, u64, Member)>,
    joined: Vec<Arc<Communicator>>,
    failed: Option<u32>,
}

thread_local! {
    static GROUPED: RefCell<Grouped> = RefCell::default();
}

fn grouped<R>(what: impl FnOnce(&mut Grouped) -> R) -> Cu<R> {
    GROUPED
        .try_with(|grouped| what(&mut grouped.borrow_mut()))
        .map_err(|_| INVALID_USAGE)
}

/// A wrong argument, whatever was wrong with it.
fn argument<T>(result: Cu<T>) -> Cu<T> {
    result.map_err(|_| INVALID_ARGUMENT)
}

fn cuda<T>(result: Cu<T>) -> Cu<T> {
    result.map_err(|_| UNHANDLED_CUDA)
}

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

/// Joins; waits for the others if that is asked for and no group is open.
fn join(to: &Out<u64>, ranks: c_int, id: UniqueId, rank: c_int, blocking: Blocking) -> Cu {
    let device = cuda(context::current_device())?;
    if id.what != OF_BOARD {
        return Err(INVALID_ARGUMENT);
    }
    let ranks = argument(usize::try_from(ranks).map_err(|_| INVALID_ARGUMENT))?;
    let rank = argument(usize::try_from(rank).map_err(|_| INVALID_ARGUMENT))?;
    let communicator = communicator::join(id.address, ranks, rank, device, blocking)?;
    argument(to.set(communicator.handle))?;
    let waits = Arc::clone(&communicator);
    let in_group = grouped(|grouped| {
        if grouped.depth > 0 {
            grouped.joined.push(communicator);
        }
        grouped.depth > 0
    })?;
    match blocking {
        Blocking::No => Err(IN_PROGRESS),
        Blocking::Yes if in_group => Ok(()),
        Blocking::Yes => waits.wait_complete(),
    }
}

/// Memory that a call names: of one allocation, on a device.
fn buffer(address: u64, elements: u32, count: u64) -> Cu<Option<Span>> {
    let size = elements::size_bytes(elements).ok_or(INVALID_ARGUMENT)?;
    let len = count.checked_mul(size).ok_or(INVALID_ARGUMENT)?;
    let mut spans = argument(memory::resolve(address, len))?;
    if spans.len() > 1 {
        return Err(INVALID_ARGUMENT);
    }
    let span = spans.pop();
    let on_device = |span: &Span| !matches!(span.allocation.kind, Kind::Pinned | Kind::Registered);
    if span.as_ref().is_some_and(|span| !on_device(span)) {
        return Err(INVALID_ARGUMENT);
    }
    Ok(span)
}

/// What a C caller says of a call.
struct Asked {
    verb: Verb,
    send: u64,
    receive: u64,
    count: usize,
    elements: u32,
    reduction: u32,
    peer: c_int,
}

impl Asked {
    fn member(&self, communicator: &Communicator) -> Cu<Member> {
        let (count, ranks) = (self.count as u64, communicator.ranks as u64);
        let peer = u32::try_from(self.peer).map_err(|_| INVALID_ARGUMENT)?;
        if u64::from(peer) >= ranks || !elements::is_reduction(self.reduction) {
            return Err(INVALID_ARGUMENT);
        }
        let is_root = peer as usize == communicator.rank;
        let all = count.checked_mul(ranks).ok_or(INVALID_ARGUMENT)?;
        let (sends, receives) = match self.verb {
            Verb::AllReduce => (Some(count), Some(count)),
            Verb::ReduceScatter => (Some(all), Some(count)),
            Verb::AllGather => (Some(count), Some(all)),
            Verb::Broadcast => (is_root.then_some(count), Some(count)),
            Verb::Reduce => (Some(count), is_root.then_some(count)),
            Verb::Send => (Some(count), None),
            Verb::Receive => (None, Some(count)),
        };
        let find = |address, count: Option<u64>| match count {
            Some(count) => buffer(address, self.elements, count),
            None => Ok(None),
        };
        Ok(Member {
            call: Call {
                verb: self.verb,
                count,
                elements: self.elements,
                reduction: self.reduction,
                peer,
            },
            input: find(self.send, sends)?,
            output: find(self.receive, receives)?,
        })
    }

    /// Enqueues it, or keeps it until the group ends.
    fn issue(&self, communicator: u64, stream: u64) -> Cu {
        let communicator = communicator::find(communicator)?;
        let result = self.prepare(&communicator, stream).and_then(|(stream, member)| {
            communicator.check()?;
            grouped(|grouped| {
                if grouped.depth == 0 {
                    return Some((stream, member));
                }
                grouped.calls.push((Arc::clone(&communicator), stream, member));
                None
            })
        });
        match result {
            Ok(None) => Ok(()),
            Ok(Some(call)) => {
                communicator.launch(vec![call])?;
                progress(communicator.blocking)
            }
            Err(code) => {
                // A group with a wrong call launches nothing.
                grouped(|grouped| grouped.failed = (grouped.depth > 0).then_some(code).or(grouped.failed))?;
                Err(code)
            }
        }
    }

    fn prepare(&self, communicator: &Communicator, stream: u64) -> Cu<(u64, Member)> {
        let stream = cuda(context::stream(stream))?;
        Ok((stream, self.member(communicator)?))
    }
}

fn progress(blocking: Blocking) -> Cu {
    match blocking {
        Blocking::Yes => Ok(()),
        Blocking::No => Err(IN_PROGRESS),
    }
}

/// The calls of one communicator in a group, with their streams.
type Calls = (Arc<Communicator>, Vec<(u64, Member)>);

/// Launches what a group has kept: the calls of each communicator together.
fn launch(grouped: Grouped) -> Cu {
    let mut any = Blocking::Yes;
    for communicator in &grouped.joined {
        match communicator.blocking {
            Blocking::Yes => communicator.wait_complete()?,
            Blocking::No => any = Blocking::No,
        }
    }
    let mut all: Vec<Calls> = Vec::new();
    for (communicator, stream, member) in grouped.calls {
        match all.iter_mut().find(|(one, _)| Arc::ptr_eq(one, &communicator)) {
            Some((_, calls)) => calls.push((stream, member)),
            None => all.push((communicator, vec![(stream, member)])),
        }
    }
    for (communicator, calls) in all {
        if communicator.blocking == Blocking::No {
            any = Blocking::No;
        }
        communicator.launch(calls)?;
    }
    progress(any)
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

// SAFETY: this library stands for NCCL too, which nothing else in the process is meant to be.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ncclGetErrorString(code: u32) -> *const c_char {
    told(code).as_ptr()
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ncclGetLastError(_communicator: u64) -> *const c_char {
    c"".as_ptr()
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

    fn ncclCommInitRank(to: Out<u64>, ranks: c_int, id: UniqueId, rank: c_int) {
        join(&to, ranks, id, rank, Blocking::Yes)
    }

    fn ncclCommInitRankConfig(to: Out<u64>, ranks: c_int, id: UniqueId, rank: c_int, config: In<Config>) {
        join(&to, ranks, id, rank, blocking(&config)?)
    }

    fn ncclCommInitAll(to: Out<u64>, count: c_int, devices: In<c_int>) {
        let address = communicator::new_board()?;
        let ranks = usize::try_from(count).map_err(|_| INVALID_ARGUMENT)?;
        let mut last = None;
        for rank in 0..ranks {
            let ordinal = devices.nth(rank).unwrap_or(rank as c_int);
            let device = cuda(context::device(ordinal))?;
            let communicator = communicator::join(address, ranks, rank, device, Blocking::Yes)?;
            argument(to.set_nth(rank, communicator.handle))?;
            last = Some(communicator);
        }
        last.map_or(Err(INVALID_ARGUMENT), |communicator| communicator.wait_complete())
    }

    fn ncclCommGetAsyncError(communicator: u64, to: Out<u32>) {
        argument(to.set(communicator::find(communicator)?.condition()))
    }

    fn ncclCommFinalize(communicator: u64) {
        let communicator = communicator::find(communicator)?;
        communicator.finalize()?;
        progress(communicator.blocking)
    }

    fn ncclCommDestroy(communicator: u64) {
        communicator::find(communicator)?.destroy();
        Ok(())
    }

    fn ncclCommAbort(communicator: u64) {
        communicator::find(communicator)?.abort();
        Ok(())
    }

    fn ncclCommCount(communicator: u64, to: Out<c_int>) {
        argument(to.set(communicator::find(communicator)?.ranks as c_int))
    }

    fn ncclCommUserRank(communicator: u64, to: Out<c_int>) {
        argument(to.set(communicator::find(communicator)?.rank as c_int))
    }

    fn ncclCommCuDevice(communicator: u64, to: Out<c_int>) {
        argument(to.set(communicator::find(communicator)?.device.cast_signed()))
    }

    fn ncclGroupStart() {
        grouped(|grouped| grouped.depth += 1)
    }

    fn ncclGroupEnd() {
        let ended = grouped(|grouped| {
            grouped.depth = grouped.depth.checked_sub(1)?;
            Some((grouped.depth == 0).then(|| std::mem::take(grouped)))
        })?;
        match ended.ok_or(INVALID_USAGE)? {
            None => Ok(()),
            Some(Grouped { failed: Some(code), .. }) => Err(code),
            Some(whole) => launch(whole),
        }
    }

    fn ncclSend(send: u64, count: usize, elements: u32, peer: c_int, communicator: u64, stream: u64) {
        let verb = Verb::Send;
        Asked { verb, send, receive: 0, count, elements, reduction: 0, peer }.issue(communicator, stream)
    }

    fn ncclRecv(receive: u64, count: usize, elements: u32, peer: c_int, communicator: u64, stream: u64) {
        let verb = Verb::Receive;
        Asked { verb, send: 0, receive, count, elements, reduction: 0, peer }.issue(communicator, stream)
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
        let verb = Verb::AllReduce;
        Asked { verb, send, receive, count, elements, reduction, peer: 0 }.issue(communicator, stream)
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
        let verb = Verb::ReduceScatter;
        Asked { verb, send, receive, count, elements, reduction, peer: 0 }.issue(communicator, stream)
    }

    fn ncclAllGather(send: u64, receive: u64, count: usize, elements: u32, communicator: u64, stream: u64) {
        let verb = Verb::AllGather;
        Asked { verb, send, receive, count, elements, reduction: 0, peer: 0 }.issue(communicator, stream)
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
        let verb = Verb::Broadcast;
        Asked { verb, send, receive, count, elements, reduction: 0, peer: root }.issue(communicator, stream)
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
        let verb = Verb::Reduce;
        Asked { verb, send, receive, count, elements, reduction, peer: root }.issue(communicator, stream)
    }
}
