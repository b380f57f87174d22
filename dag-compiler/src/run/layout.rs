//! Where everything of one graph lies in its segment: the control line, the cancel table, a doorbell and a
//! progress line for every lane, the trace rings, and the shared channels.
//!
//! The layout is a pure function of the plan, so every process computes the same one and nothing but the
//! segment's id has to be sent.

use std::collections::BTreeMap;

use selvedge_channels::{Doorbell, SEGMENT_HEADER_BYTES, SharedSpec};
use selvedge_collectives::shm::group_bytes;
use selvedge_core::LaneId;

use crate::ir::{ChannelId, ChannelKind, ChannelPlan, Plan};
use crate::run::trace::ring_bytes;

/// Bytes of the control line and of each progress line.
pub(crate) const LINE_BYTES: usize = 64;
/// Bytes kept for the text of a failure.
pub(crate) const FAILURE_BYTES: usize = 512;

/// A part of the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) offset: usize,
    pub(crate) len: usize,
}

/// What one lane owns in the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneSpans {
    pub(crate) bell: Span,
    pub(crate) progress: Span,
    pub(crate) trace: Span,
}

/// The offsets of one graph's segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) control: Span,
    pub(crate) failure: Span,
    pub(crate) cancels: Span,
    pub(crate) lanes: BTreeMap<LaneId, LaneSpans>,
    pub(crate) channels: BTreeMap<ChannelId, Span>,
    /// By group of ranks.
    pub(crate) communicators: Vec<Span>,
    pub(crate) len_bytes: usize,
}

/// The spec of a shared channel, as both of its ends and its creator see it.
pub(crate) fn shared_spec(channel: &ChannelPlan) -> SharedSpec {
    SharedSpec {
        slots: channel.slots,
        slot_bytes: channel.slot_bytes,
        readers: channel.readers.len() as u32,
        max_bytes: channel.max_bytes,
    }
}

impl Layout {
    /// Lays a plan out; `None` when it does not fit the address space.
    pub(crate) fn of(plan: &Plan) -> Option<Layout> {
        let mut cursor = Cursor {
            next: SEGMENT_HEADER_BYTES,
        };
        // The second line is written by lanes whose methods await; the first is read by all.
        let control = cursor.span(2 * LINE_BYTES)?;
        let failure = cursor.span(FAILURE_BYTES)?;
        // A power of two: lanes find their cell twice a task, and a division costs more than all else on that way.
        let cells = (plan.settings.max_inflight as usize).checked_next_power_of_two()?;
        let cancels = cursor.span(cells.checked_mul(8)?)?;
        let trace_bytes = ring_bytes(plan.settings.trace_events as usize)?;
        let mut lanes = BTreeMap::new();
        for lane in &plan.lanes {
            let spans = LaneSpans {
                bell: cursor.span(Doorbell::BYTES)?,
                progress: cursor.span(LINE_BYTES)?,
                trace: cursor.span(trace_bytes)?,
            };
            lanes.insert(lane.lane, spans);
        }
        let mut channels = BTreeMap::new();
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
            failure,
            cancels,
            lanes,
            channels,
            communicators,
            len_bytes: cursor.next,
        })
    }
}

struct Cursor {
    next: usize,
}

impl Cursor {
    /// The next `len` bytes, on a cache line of their own.
    fn span(&mut self, len: usize) -> Option<Span> {
        let offset = self.next;
        self.next = offset.checked_add(len)?.checked_next_multiple_of(LINE_BYTES)?;
        Some(Span { offset, len })
    }
}
