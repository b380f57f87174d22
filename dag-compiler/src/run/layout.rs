//! The layout of a graph's segment on one host: the control lines, the cancel table, a doorbell, a progress line, a failure's
//! text and a trace ring for every lane of the host, the doorbells of the shuttles, the channels in shared memory, and the
//! groups of ranks.
//!
//! The layout is a pure function of the plan and the host, so every process of the host computes the same one, and only the
//! segment's id has to be sent.

use selvedge_channels::{Doorbell, SEGMENT_HEADER_BYTES, SharedSpec};
use selvedge_collectives::shm::group_bytes;
use selvedge_core::{HostId, IdMap, LaneId, ProcessId};

use crate::ir::{ChannelId, ChannelPlan, Plan};
use crate::run::trace::recorder::ring_bytes;

/// The size of each control line and of each progress line, in bytes.
pub(crate) const LINE_BYTES: usize = 64;
/// Bytes reserved for the text of a lane's failure.
pub(crate) const FAILURE_BYTES: usize = 512;

/// A part of the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) offset: usize,
    pub(crate) len: usize,
}

/// The parts of the segment that belong to one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneSpans {
    pub(crate) bell: Span,
    pub(crate) progress: Span,
    pub(crate) failure: Span,
    pub(crate) trace: Span,
}

/// The positions of all parts of one graph's segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) host: HostId,
    pub(crate) control: Span,
    pub(crate) cancels: Span,
    pub(crate) lanes: IdMap<LaneId, LaneSpans>,
    /// The doorbells of the processes that have a joint; none in a graph on one host.
    pub(crate) joints: IdMap<ProcessId, Span>,
    pub(crate) channels: IdMap<ChannelId, Span>,
    /// The groups with ranks on the host, by number. Their memory is for these ranks.
    pub(crate) communicators: IdMap<usize, Span>,
    pub(crate) len_bytes: usize,
}

/// The spec of a shared channel, as its creator and both of its ends compute it.
pub(crate) fn shared_spec(channel: &ChannelPlan) -> SharedSpec {
    SharedSpec {
        slots: channel.slots,
        slot_bytes: channel.slot_bytes,
        readers: channel.readers.len() as u32 + channel.mirrors,
        max_bytes: channel.max_bytes,
    }
}

impl Layout {
    /// Lays out what a plan has on a host; `None` if it does not fit the address space.
    pub(crate) fn of(plan: &Plan, host: HostId) -> Option<Layout> {
        let mut cursor = LayoutCursor {
            next: SEGMENT_HEADER_BYTES,
        };
        // Lanes whose methods await write the second line; all lanes read the first.
        let control = cursor.span(2 * LINE_BYTES)?;
        // A power of two: lanes look up their cell twice per task, and a division costs more than everything else on
        // that path.
        let cells = (plan.settings.max_inflight as usize).checked_next_power_of_two()?;
        let cancels = cursor.span(cells.checked_mul(8)?)?;
        let trace_bytes = ring_bytes(plan.settings.trace_events as usize)?;
        let mut lanes = IdMap::new();
        for lane in plan.lanes.iter().filter(|lane| lane.address.host == host) {
            let spans = LaneSpans {
                bell: cursor.span(Doorbell::BYTES)?,
                progress: cursor.span(LINE_BYTES)?,
                failure: cursor.span(FAILURE_BYTES)?,
                trace: cursor.span(trace_bytes)?,
            };
            lanes.insert(lane.address.lane, spans);
        }
        let mut joints = IdMap::new();
        for (_, process) in plan.joints().into_iter().filter(|(there, _)| *there == host) {
            joints.insert(process, cursor.span(Doorbell::BYTES)?);
        }
        let mut channels = IdMap::new();
        let there = |channel: &&ChannelPlan| channel.is_encoded() && channel.host() == host;
        for channel in plan.channels.iter().filter(there) {
            let bytes = shared_spec(channel).size_bytes().ok()?;
            channels.insert(channel.id, cursor.span(bytes)?);
        }
        let mut communicators = IdMap::new();
        for (number, communicator) in plan.communicators.iter().enumerate() {
            let ranks = communicator.ranks_on(host).len();
            if ranks > 0 {
                communicators.insert(number, cursor.span(group_bytes(ranks).ok()?)?);
            }
        }
        Some(Layout {
            host,
            control,
            cancels,
            lanes,
            joints,
            channels,
            communicators,
            len_bytes: cursor.next,
        })
    }
}

struct LayoutCursor {
    next: usize,
}

impl LayoutCursor {
    /// The next `len` bytes, beginning on a cache line of their own.
    fn span(&mut self, len: usize) -> Option<Span> {
        let offset = self.next;
        self.next = offset.checked_add(len)?.checked_next_multiple_of(LINE_BYTES)?;
        Some(Span { offset, len })
    }
}
