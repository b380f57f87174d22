//! Growth: memory for payloads that are larger than the slots, one segment per generation.

use crate::error::{ChannelError, SegmentError};
use crate::memory::region::Region;
use crate::memory::segment::{Provider, SEGMENT_HEADER_BYTES, Segment, SegmentId};

/// The payload area of one generation: as many slots as the ring, with a larger stride.
#[derive(Debug)]
pub(super) struct Generation {
    pub(super) number: u32,
    pub(super) stride: usize,
    pub(super) id: SegmentId,
    pub(super) payloads: Region,
}

/// The stride for a payload of `need` bytes. It is at least twice the last one, so that growth is rare: a payload that
/// grows to S bytes costs at most log2 S segments. It is at most `max`, rounded up to a multiple of 64, because no
/// payload is larger than `max`.
pub(super) fn next_stride(need: u64, last: usize, max: u64) -> Result<usize, ChannelError> {
    let too_large = ChannelError::TooLarge {
        need_bytes: need,
        max_bytes: max,
    };
    if need > max {
        return Err(too_large);
    }
    let doubled = (last as u64).saturating_mul(2);
    let stride = doubled.max(need.saturating_add(need / 4)).min(max);
    usize::try_from(stride)
        .ok()
        .and_then(|stride| stride.checked_next_multiple_of(64))
        .ok_or(too_large)
}

impl Generation {
    /// Makes a new generation. Only the writer does so.
    pub(super) fn create(
        provider: Provider,
        number: u32,
        slots: u32,
        stride: usize,
    ) -> Result<Self, ChannelError> {
        let overflow = ChannelError::TooLarge {
            need_bytes: stride as u64,
            max_bytes: (usize::MAX / slots.max(1) as usize) as u64,
        };
        let len = stride
            .checked_mul(slots as usize)
            .and_then(|len| len.checked_add(SEGMENT_HEADER_BYTES))
            .ok_or(overflow)?;
        let segment = Segment::create(provider, len)?;
        let id = segment.id().ok_or(SegmentError::Foreign {
            pid: 0,
            what: "it cannot be named",
        })?;
        let payloads = segment.part(SEGMENT_HEADER_BYTES, len - SEGMENT_HEADER_BYTES)?;
        Ok(Generation {
            number,
            stride,
            id,
            payloads,
        })
    }

    /// Opens the generation that a slot's header names. Each of its numbers is checked before it is used (`SHM-3`).
    pub(super) fn open(number: u32, slots: u32, stride: u64, id: SegmentId) -> Result<Self, ChannelError> {
        let corrupt = ChannelError::Corrupt {
            what: "a generation's stride",
        };
        let stride = usize::try_from(stride)
            .ok()
            .filter(|stride| stride.is_multiple_of(64));
        let area = |stride: usize| Some((stride, stride.checked_mul(slots as usize)?));
        let (stride, len) = stride.and_then(area).ok_or(corrupt)?;
        let segment = Segment::open(&id)?;
        let payloads = segment.part(SEGMENT_HEADER_BYTES, len)?;
        Ok(Generation {
            number,
            stride,
            id,
            payloads,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chan_16_strides_grow_geometrically_up_to_the_cap() {
        assert_eq!(next_stride(1001, 1024, 1 << 30).unwrap(), 2048);
        assert_eq!(next_stride(1 << 20, 1024, 1 << 30).unwrap(), (1 << 20) * 5 / 4);
        assert_eq!(next_stride(1 << 20, 1 << 19, 1 << 20).unwrap(), 1 << 20);
        assert_eq!(next_stride(999, 500, 1001).unwrap(), 1024);
        assert!(matches!(
            next_stride(1002, 500, 1001),
            Err(ChannelError::TooLarge {
                need_bytes: 1002,
                max_bytes: 1001
            })
        ));
        assert!(next_stride(u64::MAX, 500, u64::MAX).is_err());
    }

    /// The bound of [`ChannelMemory::outgrown_bytes`](crate::ChannelMemory::outgrown_bytes).
    #[test]
    fn outgrown_strides_are_more_than_the_last_one_and_less_than_twice_it() {
        let mut most = 0.0_f64;
        for first in [1024, 4096, 5056] {
            for max in (2 * first as u64 + 1..40 * first as u64).step_by(97) {
                let (mut strides, mut last) = (Vec::new(), first);
                while (last as u64) < max {
                    last = next_stride(last as u64 + 1, last, max).unwrap();
                    strides.push(last);
                }
                let outgrown: usize = strides.iter().rev().skip(1).sum();
                assert!((outgrown as u64) < 2 * max, "{max}: {strides:?}");
                most = most.max(outgrown as f64 / max as f64);
            }
        }
        assert!(most > 1.5, "{most}");
    }
}
