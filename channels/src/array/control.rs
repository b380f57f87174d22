//! The words that say who looks at the elements, and who has claimed a part.

use std::sync::atomic::{AtomicU64, Ordering};

use super::error::ArrayError;
use super::memory::ArraySpec;
use crate::error::SegmentError;
use crate::in_use::{Refusal, Slots, UseWords};
use crate::memory::claim::Claim;
use crate::memory::process::Process;
use crate::memory::region::Region;
use crate::payload::DType;

/// The first word of an array.
const MAGIC: u64 = u64::from_le_bytes(*b"svarray1");
/// The bytes of the description, and of each slot.
const LINE: usize = 64;

/// The places of the words in a slot: the process, its views, its claim.
const VIEWS: usize = 8;
const CLAIM: usize = 16;

/// The most slots that an array has.
pub(super) const SLOTS_MAX: usize = 65_536;

/// The control words of an array.
pub(super) struct Control {
    region: Region,
    slots: usize,
}

impl Control {
    /// The bytes that the words take; `None` for too many slots.
    pub(super) fn bytes(slots: usize) -> Option<usize> {
        (slots <= SLOTS_MAX).then(|| LINE * (slots + 1))
    }

    /// Writes the description of a new array.
    pub(super) fn format(region: Region, spec: &ArraySpec) -> Result<Self, SegmentError> {
        let words: &[AtomicU64; 5] = region.atomics(0)?;
        let values = [
            MAGIC,
            spec.dtype as u64,
            spec.len as u64,
            spec.parts as u64,
            spec.slots as u64,
        ];
        for (word, value) in words.iter().zip(values) {
            // Relaxed: the array's name reaches other processes by a message, after this.
            word.store(value, Ordering::Relaxed);
        }
        Ok(Control::attach(region, spec))
    }

    /// Reads the description of an array in memory that another process has made (`ARR-5`).
    pub(super) fn describe(region: &Region, pid: u32) -> Result<ArraySpec, SegmentError> {
        let words: &[AtomicU64; 5] = region.atomics(0)?;
        // Relaxed: the maker has written the words before it has told the array's name.
        let [magic, dtype, len, parts, slots] = words.each_ref().map(|word| word.load(Ordering::Relaxed));
        let foreign = || SegmentError::Foreign {
            pid,
            what: "it is no array",
        };
        let number = |word: u64| usize::try_from(word).map_err(|_| foreign());
        let spec = ArraySpec {
            dtype: dtype_of(dtype).ok_or_else(foreign)?,
            len: number(len)?,
            parts: number(parts)?,
            slots: number(slots)?,
        };
        let fits = magic == MAGIC && spec.parts <= spec.slots && spec.slots <= SLOTS_MAX;
        if fits { Ok(spec) } else { Err(foreign()) }
    }

    /// The words of an array that was described.
    pub(super) fn attach(region: Region, spec: &ArraySpec) -> Self {
        Control {
            region,
            slots: spec.slots,
        }
    }

    fn word(&self, slot: usize, word: usize) -> Result<&AtomicU64, SegmentError> {
        self.region.atomic_u64(LINE * (slot + 1) + word)
    }

    /// Makes this process the one of a slot. A slot is entered once.
    pub(super) fn enter(&self, slot: usize) -> Result<(), SegmentError> {
        let claim = Claim::at(&self.region, LINE * (slot + 1))?;
        claim
            .take(Process::own())
            .map_err(|holder| SegmentError::Foreign {
                pid: holder.process.pid,
                what: "it has the place in the array already",
            })
    }
}

impl Slots for Control {
    type Error = SegmentError;

    fn count(&self) -> usize {
        self.slots
    }

    fn words(&self, slot: usize) -> Result<UseWords<'_>, SegmentError> {
        Ok(UseWords {
            views: self.word(slot, VIEWS)?,
            claim: self.word(slot, CLAIM)?,
        })
    }

    fn living(&self, slot: usize) -> Result<Option<u32>, SegmentError> {
        let holder = Claim::at(&self.region, LINE * (slot + 1))?.holder();
        let living = holder.filter(|holder| !holder.process.is_ending());
        Ok(living.map(|holder| holder.process.pid))
    }
}

impl From<Refusal<SegmentError>> for ArrayError {
    fn from(refusal: Refusal<SegmentError>) -> Self {
        match refusal {
            Refusal::Claimed(pid) => ArrayError::Claimed { pid },
            Refusal::Viewed(pid) => ArrayError::InUse { pid },
            Refusal::Slot(error) => error.into(),
        }
    }
}

/// The type with this number. No array has booleans.
fn dtype_of(number: u64) -> Option<DType> {
    let mut numbers = DType::ALL.into_iter().filter(|dtype| *dtype != DType::Bool);
    numbers.find(|dtype| *dtype as u64 == number)
}
