//! Memory for payloads that have outgrown the slots: one segment per generation.

use crate::error::{ChannelError, SegmentError};
use crate::region::Region;
use crate::segment::{Provider, SEGMENT_HEADER_BYTES, Segment, SegmentId};

/// The payload area of one generation.
pub(super) struct Generation {
    pub(super) number: u32,
    pub(super) stride: usize,
    pub(super) id: SegmentId,
    pub(super) payload: Region,
}

/// The stride for a payload of `need` bytes: at least double the last, so that growth is rare.
pub(super) fn next_stride(need: u64, last: usize, max: u64) -> Result<usize, ChannelError> {
    let too_large = ChannelError::TooLarge {
        need_bytes: need,
        max_bytes: max,
    };
    if need > max {
        return Err(too_large);
    }
    let wanted = (last as u64)
        .saturating_mul(2)
        .max(need.checked_next_power_of_two().unwrap_or(need));
    let stride = usize::try_from(wanted.min(max).max(need))
        .ok()
        .and_then(|it| it.checked_next_multiple_of(64));
    stride.ok_or(too_large)
}

fn area(slots: u32, stride: usize) -> Option<usize> {
    stride.checked_mul(slots as usize)
}

impl Generation {
    /// A new generation, made by the writer.
    pub(super) fn create(number: u32, slots: u32, stride: usize) -> Result<Self, ChannelError> {
        let overflow = ChannelError::TooLarge {
            need_bytes: stride as u64,
            max_bytes: usize::MAX as u64,
        };
        let Some(len) = area(slots, stride).and_then(|len| len.checked_add(SEGMENT_HEADER_BYTES)) else {
            return Err(overflow);
        };
        let segment = Segment::create(Provider::Memfd, len)?;
        let id = segment.id().ok_or(SegmentError::Foreign {
            pid: 0,
            what: "it cannot be named",
        })?;
        let payload = segment.region(SEGMENT_HEADER_BYTES, len - SEGMENT_HEADER_BYTES)?;
        Ok(Generation {
            number,
            stride,
            id,
            payload,
        })
    }

    /// A generation that a slot's header names; nothing of it is believed unchecked (`SHM-4`).
    pub(super) fn open(number: u32, slots: u32, stride: u64, id: SegmentId) -> Result<Self, ChannelError> {
        let corrupt = ChannelError::Corrupt {
            what: "a generation that does not fit its segment",
        };
        let stride = usize::try_from(stride)
            .ok()
            .filter(|stride| stride.is_multiple_of(64));
        let Some((stride, len)) = stride.and_then(|stride| Some((stride, area(slots, stride)?))) else {
            return Err(corrupt);
        };
        let segment = Segment::open(&id)?;
        let payload = segment.region(SEGMENT_HEADER_BYTES, len)?;
        Ok(Generation {
            number,
            stride,
            id,
            payload,
        })
    }
}
