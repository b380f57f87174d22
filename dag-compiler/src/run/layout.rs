//! The layout of a graph's segment: the control lines, the cancel table, a doorbell, a progress line, a failure's text
//! and a trace ring for every lane, the shared channels, and the groups of ranks.
//!
//! The layout is a pure function of the plan, so every process computes the same one, and only the segment's id has to
//! be sent.

use selvedge_channels::{Doorbell, SEGMENT_HEADER_BYTES, SharedSpec};
use selvedge_collectives::shm::group_bytes;
use selvedge_core::{IdMap, LaneId};

use crate::ir::{ChannelId, ChannelKind, ChannelPlan, Plan};
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
    pub(crate) control: Span,
    pub(crate) cancels: Span,
    pub(crate) lanes: IdMap<LaneId, LaneSpans>,
    pub(crate) channels: IdMap<ChannelId, Span>,
    /// One span per group of ranks.
    pub(crate) communicators: Vec<Span>,
    pub(crate) len_bytes: usize,
}

/// The spec of a shared channel, as its creator and both of its ends compute it.
pub(crate) fn shared_spec(channel: &ChannelPlan) -> SharedSpec {
    SharedSpec {
        slots: channel.slots,
        slot_bytes: channel.slot_bytes,
        readers: channel.readers.len() as u32,
        max_bytes: channel.max_bytes,
    }
}

impl Layout {
    /// Lays a plan out; `None` if it does not fit the address space.
    pub(crate) fn of(plan: &Plan) -> Option<Layout> {
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
        for lane in &plan.lanes {
            let spans = LaneSpans {
                bell: cursor.span(Doorbell::BYTES)?,
                progress: cursor.span(LINE_BYTES)?,
                failure: cursor.span(FAILURE_BYTES)?,
                trace: cursor.span(trace_bytes)?,
            };
            lanes.insert(lane.address.lane, spans);
        }
        let mut channels = IdMap::new();
        for channel in &plan.channels {
            if channel.kind == ChannelKind::Shared {
                let bytes = shared_spec(channel).size_bytes().ok()?;
                channels.insert(channel.id, cursor.span(bytes)?);
            }
        }
        let mut communicators = Vec::with_capacity(plan.communicators.len());
        for communicator in &plan.communicators {
            communicators.push(cursor.span(group_bytes(communicator.ranks.len()).ok()?)?);
        }
        Some(Layout {
            control,
            cancels,
            lanes,
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
