//! Calls of NCCL: the requests of a C caller, checked, and kept until their group ends.

use std::cell::RefCell;
use std::ffi::c_int;
use std::sync::Arc;

use crate::code::Cu;
use crate::communicator::{
    self, Blocking, Communicator, IN_PROGRESS, INVALID_ARGUMENT, INVALID_USAGE, UNHANDLED_CUDA,
};
use crate::group::Member;
use crate::memory::{Kind, Span};
use crate::rendezvous::{Call, Verb};
use crate::{context, elements, space};

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

/// Maps any error to that of an invalid argument.
pub(crate) fn argument<T>(result: Cu<T>) -> Cu<T> {
    result.map_err(|_| INVALID_ARGUMENT)
}

/// Maps any error to that of a failed driver call.
pub(crate) fn cuda<T>(result: Cu<T>) -> Cu<T> {
    result.map_err(|_| UNHANDLED_CUDA)
}

/// Starts a group.
pub(crate) fn start() -> Cu {
    grouped(|grouped| grouped.depth += 1)
}

/// Ends a group; the end of the outermost group launches the kept calls.
pub(crate) fn end() -> Cu {
    let ended = grouped(|grouped| {
        grouped.depth = grouped.depth.checked_sub(1)?;
        Some((grouped.depth == 0).then(|| std::mem::take(grouped)))
    })?;
    match ended.ok_or(INVALID_USAGE)? {
        None => Ok(()),
        Some(Grouped {
            failed: Some(code), ..
        }) => Err(code),
        Some(whole) => launch(whole),
    }
}

/// Handles a rank that has joined: waits for the other ranks if the communicator is blocking and no group is open.
pub(crate) fn joined(communicator: Arc<Communicator>) -> Cu {
    let waits = Arc::clone(&communicator);
    let in_group = grouped(|grouped| {
        if grouped.depth > 0 {
            grouped.joined.push(communicator);
        }
        grouped.depth > 0
    })?;
    match waits.blocking {
        Blocking::No => Err(IN_PROGRESS),
        Blocking::Yes if in_group => Ok(()),
        Blocking::Yes => waits.wait_complete(),
    }
}

/// Returns the memory that a call names, which must be part of one allocation on a device.
fn buffer(address: u64, elements: u32, count: u64) -> Cu<Option<Span>> {
    let size = elements::size_bytes(elements).ok_or(INVALID_ARGUMENT)?;
    let len = count.checked_mul(size).ok_or(INVALID_ARGUMENT)?;
    let mut spans = argument(space::resolve(address, len))?;
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

/// The arguments of a call, as the C caller passed them.
pub(crate) struct Asked {
    pub(crate) verb: Verb,
    pub(crate) send: u64,
    pub(crate) receive: u64,
    pub(crate) count: usize,
    pub(crate) elements: u32,
    pub(crate) reduction: u32,
    pub(crate) peer: c_int,
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

    /// Enqueues the call, or keeps it until the group ends.
    pub(crate) fn issue(&self, communicator: u64, stream: u64) -> Cu {
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
                // A group with an invalid call launches nothing.
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

/// Returns the result of a call that was launched.
pub(crate) fn progress(blocking: Blocking) -> Cu {
    match blocking {
        Blocking::Yes => Ok(()),
        Blocking::No => Err(IN_PROGRESS),
    }
}

/// The calls of one communicator in a group, with their streams.
type Calls = (Arc<Communicator>, Vec<(u64, Member)>);

/// Launches the calls that a group has kept: the calls of each communicator together.
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
