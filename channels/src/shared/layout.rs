//! The layout of a shared channel's region.
//!
//! ```text
//! | control line | tail line per reader … | header line per slot … | K payloads, `slot_bytes` apart … |
//!
//! control   version, state, slots, readers, slot_bytes, max_bytes, writer's claim, tag of the payloads' type
//! tail      passed, blocked, reader's claim, claim of records
//! header    stamp, meta, length, then up to 40 bytes of payload
//!           or, where the generation is above 0: pid and fd, nonce, length of the segment, stride
//! ```
//!
//! Each of these lines is followed by an empty one. Claims are those of `memory/claim.rs`. The
//! lowest byte of the state is open, closed or poisoned; the bytes above it hold the culprit's endpoint and pid.
//!
//! All numbers are native u64, one word each, because all endpoints run on one machine. `meta` holds the generation
//! (upper half) and the kind of message (lower half); `pid and fd` are the two halves of one word.

use std::sync::atomic::{AtomicU64, Ordering};

use super::SharedSpec;
use super::record_claim::RecordClaim;
use crate::error::{ChannelError, Culprit, End};
use crate::memory::made_in::MadeIn;
use crate::memory::region::Region;
use crate::ring::cursor::Tail;

/// The magic number and the version, in one word.
const VERSION: u64 = u64::from_le_bytes(*b"slvring6");

/// The size of a cache line in bytes.
const LINE: usize = 64;
/// The distance between two lines that are polled or written. Processors fetch lines in pairs, so adjacent lines would
/// disturb each other (a round trip of 8 bytes would be a tenth slower).
const APART: usize = 2 * LINE;
const PAGE: usize = 4096;

/// Offsets in the control line.
pub(super) mod control {
    pub(super) const VERSION: usize = 0;
    pub(super) const STATE: usize = 8;
    pub(super) const SLOTS: usize = 16;
    pub(super) const READERS: usize = 24;
    pub(super) const SLOT_BYTES: usize = 32;
    pub(super) const MAX_BYTES: usize = 40;
    pub(in super::super) const CLAIM: usize = 48;
    pub(super) const TAG: usize = 56;
}

/// Offsets in a reader's line.
pub(super) mod tail {
    pub(super) const PASSED: usize = 0;
    pub(super) const BLOCKED: usize = 8;
    pub(in super::super) const CLAIM: usize = 16;
    pub(super) const RECORDS: usize = 24;
}

/// Offsets in a slot's header.
pub(super) mod slot {
    pub(in super::super) const STAMP: usize = 0;
    pub(in super::super) const META: usize = 8;
    pub(in super::super) const LEN: usize = 16;
    pub(in super::super) const INLINE: usize = 24;
    pub(in super::super) const INLINE_MAX: usize = super::LINE - INLINE;
    pub(in super::super) const PID_FD: usize = 24;
    pub(in super::super) const NONCE: usize = 32;
    pub(in super::super) const SEGMENT_LEN: usize = 40;
    pub(in super::super) const STRIDE: usize = 48;
}

/// The kinds of messages in a slot.
pub(super) mod kind {
    pub(in super::super) const VALUE: u32 = 0;
    pub(in super::super) const FAILED: u32 = 1;
    pub(in super::super) const CANCELLED: u32 = 2;
}

const OPEN: u64 = 0;
const CLOSED: u64 = 1;
const POISONED: u64 = 2;

/// Offsets that follow from a spec.
#[derive(Debug)]
pub(super) struct SlotOffsets {
    headers: usize,
    payloads: usize,
    /// The distance in bytes from one payload to the next, which is also the capacity of a slot.
    pub(super) stride: usize,
    pub(super) end: usize,
}

impl SlotOffsets {
    /// The offsets for `spec`; `None` on overflow. Offsets that are computed from them later cannot overflow, because
    /// their sum is checked here.
    pub(super) fn of(spec: &SharedSpec) -> Option<Self> {
        let (slots, readers) = (spec.slots as usize, spec.readers as usize);
        let stride = usize::try_from(spec.slot_bytes)
            .ok()?
            .checked_next_multiple_of(LINE)?;
        let headers = readers.checked_add(1)?.checked_mul(APART)?;
        let payloads = headers.checked_add(slots.checked_mul(APART)?)?;
        let end = payloads.checked_add(stride.checked_mul(slots)?)?;
        Some(SlotOffsets {
            headers,
            payloads,
            stride,
            end,
        })
    }
}

/// Formats a fresh, zeroed region. The creator of the channel calls this once, before any endpoint attaches. Touches
/// the first page of every slot, so that the first small messages do not pay for page faults.
///
/// # Errors
/// [`ChannelError`] if the spec is invalid or the region is too short.
pub fn format(region: &Region, spec: &SharedSpec) -> Result<(), ChannelError> {
    let MappedChannel { region, places, .. } = MappedChannel::new(region, spec)?;
    for word in (0..places.payloads).step_by(8) {
        // Relaxed: the version publishes it (SYNC ring-formatted).
        region.atomic_u64(word)?.store(0, Ordering::Relaxed);
    }
    for page in (places.payloads..places.end).step_by(places.stride.max(PAGE)) {
        // Relaxed: see above.
        region.atomic_u64(page)?.store(0, Ordering::Relaxed);
    }
    const { assert!(OPEN == 0, "the state is among the words above") };
    for (offset, number) in shape(spec) {
        // Relaxed: see above.
        region.atomic_u64(offset)?.store(number, Ordering::Relaxed);
    }
    // SYNC ring-formatted: pairs with the load in `check_version`; publishes all stores above.
    region
        .atomic_u64(control::VERSION)?
        .store(VERSION, Ordering::Release);
    Ok(())
}

/// The numbers in the control line that describe the channel, by their offsets.
fn shape(spec: &SharedSpec) -> [(usize, u64); 4] {
    [
        (control::SLOTS, spec.slots.into()),
        (control::READERS, spec.readers.into()),
        (control::SLOT_BYTES, spec.slot_bytes),
        (control::MAX_BYTES, spec.max_bytes),
    ]
}

fn check_version(region: &Region) -> Result<(), ChannelError> {
    // SYNC ring-formatted.
    if region.atomic_u64(control::VERSION)?.load(Ordering::Acquire) == VERSION {
        return Ok(());
    }
    Err(ChannelError::Corrupt {
        what: "the region holds no channel of this version",
    })
}

/// Poisons the channel on behalf of `culprit`, a peer that has died. An endpoint notices it when it next finds no
/// progress; a reader first reads the messages that are there. Ring the bells of the endpoints afterwards. Never waits.
///
/// # Errors
/// [`ChannelError::Corrupt`] if the region holds no channel.
pub fn poison(region: &Region, culprit: Culprit) -> Result<(), ChannelError> {
    check_version(region)?;
    let end = match culprit.end {
        End::Writer => 0,
        End::Reader(index) => u64::from(index) + 1,
    };
    let poisoned = u64::from(culprit.pid) << 32 | (end & 0xFF_FFFF) << 8 | POISONED;
    // SYNC ring-closed: pairs with the load in `check_open`. The first cause stays.
    let state = region.atomic_u64(control::STATE)?;
    let _ = state.compare_exchange(OPEN, poisoned, Ordering::Release, Ordering::Relaxed);
    Ok(())
}

/// The culprit that the state word of a poisoned channel names.
fn culprit(state: u64) -> Culprit {
    let end = (state >> 8) as u32 & 0xFF_FFFF;
    Culprit {
        end: end.checked_sub(1).map_or(End::Writer, End::Reader),
        pid: (state >> 32) as u32,
    }
}

/// The memory of a channel, as one endpoint sees it.
#[derive(Debug)]
pub(crate) struct MappedChannel {
    pub(crate) region: Region,
    pub(crate) spec: SharedSpec,
    pub(super) places: SlotOffsets,
    made_in: MadeIn,
}

impl MappedChannel {
    fn new(region: &Region, spec: &SharedSpec) -> Result<Self, ChannelError> {
        let places = spec.places()?;
        Ok(MappedChannel {
            region: region.sub(0, places.end)?,
            spec: spec.clone(),
            places,
            made_in: MadeIn::here(),
        })
    }

    /// The channel in `region`, if it is the one that `spec` describes.
    pub(crate) fn attach(region: Region, spec: &SharedSpec) -> Result<Self, ChannelError> {
        let place = MappedChannel::new(&region, spec)?;
        check_version(&place.region)?;
        for (offset, number) in shape(spec) {
            // Relaxed: `check_version` has read the version, which publishes the numbers.
            if place.region.atomic_u64(offset)?.load(Ordering::Relaxed) != number {
                return Err(ChannelError::Corrupt {
                    what: "the region holds a channel of another shape",
                });
            }
        }
        Ok(place)
    }

    /// Whether the endpoint belongs to this process. The copy that a forked child has belongs to its parent.
    pub(super) fn is_own(&self) -> bool {
        self.made_in.is_here()
    }

    /// The tag of the payload type; 0 if it was never set.
    pub(crate) fn tag(&self) -> Result<u64, ChannelError> {
        // Relaxed: set before any other process has the descriptor, whose hand-over orders it.
        Ok(self.region.atomic_u64(control::TAG)?.load(Ordering::Relaxed))
    }

    /// Sets the tag of the payload type. Call this before any other process has the descriptor.
    pub(crate) fn set_tag(&self, tag: u64) -> Result<(), ChannelError> {
        // Relaxed: see `tag`.
        self.region
            .atomic_u64(control::TAG)?
            .store(tag, Ordering::Relaxed);
        Ok(())
    }

    /// The offset of a slot's header.
    #[inline]
    pub(super) fn header(&self, slot: usize) -> usize {
        self.places.headers + slot * APART
    }

    /// The stamp, meta and length words of a slot.
    #[inline]
    pub(super) fn words(&self, slot: usize) -> Result<&[AtomicU64; 3], ChannelError> {
        const { assert!(slot::STAMP == 0 && slot::META == 8 && slot::LEN == 16) };
        Ok(self.region.atomics(self.header(slot))?)
    }

    /// The offset of a slot's payload.
    #[inline]
    pub(super) fn payload(&self, slot: usize) -> usize {
        self.places.payloads + slot * self.places.stride
    }

    #[inline]
    pub(super) fn line(&self, reader: u32) -> usize {
        (reader as usize + 1) * APART
    }

    /// The words of a reader.
    #[inline]
    pub(super) fn tail(&self, reader: u32) -> Result<Tail<'_>, ChannelError> {
        let line = self.line(reader);
        Ok(Tail {
            passed: self.region.atomic_u64(line + tail::PASSED)?,
            blocked: self.region.atomic_u64(line + tail::BLOCKED)?,
        })
    }

    /// The word that says which records a reader has claimed.
    pub(super) fn records_of(&self, reader: u32) -> Result<RecordClaim<'_>, ChannelError> {
        let word = self.region.atomic_u64(self.line(reader) + tail::RECORDS)?;
        Ok(RecordClaim::at(word))
    }

    /// Closes the channel: no message follows. A poisoned channel stays poisoned.
    pub(super) fn close(&self) {
        if let Ok(state) = self.region.atomic_u64(control::STATE) {
            // SYNC ring-closed: pairs with the load in `check_open`; the store of the last stamp happens before it.
            let _ = state.compare_exchange(OPEN, CLOSED, Ordering::Release, Ordering::Relaxed);
        }
    }

    /// Checks that no peer is known to have died. Unlike [`check_open`](Self::check_open) it accepts a closed channel,
    /// for a writer that waits for its readers after it has closed.
    pub(super) fn check_live(&self) -> Result<(), ChannelError> {
        match self.check_open() {
            Err(ChannelError::Closed) => Ok(()),
            other => other,
        }
    }

    /// Checks that the channel is open, so that there is a peer to wait for (`SHM-4`).
    #[inline]
    pub(super) fn check_open(&self) -> Result<(), ChannelError> {
        // SYNC ring-closed.
        let state = self.region.atomic_u64(control::STATE)?.load(Ordering::Acquire);
        match state & 0xFF {
            OPEN => Ok(()),
            CLOSED => Err(ChannelError::Closed),
            POISONED => Err(ChannelError::Poisoned {
                culprit: culprit(state),
            }),
            _ => Err(ChannelError::Corrupt {
                what: "a state that does not exist",
            }),
        }
    }
}
