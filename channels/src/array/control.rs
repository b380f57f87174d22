//! The words that say who looks at the elements, and who has claimed a part.

use std::sync::atomic::{AtomicU64, Ordering};

use super::error::ArrayError;
use super::memory::ArraySpec;
use crate::error::SegmentError;
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
        Ok(Control {
            region,
            slots: spec.slots,
        })
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

    /// The process of a slot, if it has a word there that is not zero, and has not ended (`ARR-4`).
    fn process_with(&self, slot: usize, word: usize) -> Result<Option<u32>, SegmentError> {
        // SYNC array-use: SeqCst, for the one order of ARR-2; as an Acquire it sees what the view or the part has written before it was
        // given up.
        if self.word(slot, word)?.load(Ordering::SeqCst) == 0 {
            return Ok(None);
        }
        let holder = Claim::at(&self.region, LINE * (slot + 1))?.holder();
        let living = holder.filter(|holder| !holder.process.is_ending());
        Ok(living.map(|holder| holder.process.pid))
    }

    fn find(&self, word: usize) -> Result<Option<u32>, SegmentError> {
        for slot in 0..self.slots {
            if let Some(pid) = self.process_with(slot, word)? {
                return Ok(Some(pid));
            }
        }
        Ok(None)
    }

    /// Counts a view of this process, unless a part is claimed.
    pub(super) fn begin_view(&self, slot: usize) -> Result<(), ArrayError> {
        // First without a count, which would refuse the claims that other processes make beside the one that is found.
        if let Some(pid) = self.find(CLAIM)? {
            return Err(ArrayError::Claimed { pid });
        }
        // SYNC array-use: SeqCst, for the one order of ARR-2.
        self.word(slot, VIEWS)?.fetch_add(1, Ordering::SeqCst);
        match self.find(CLAIM) {
            Ok(None) => Ok(()),
            claimed => {
                self.end_view(slot);
                let pid = claimed?.unwrap_or_default();
                Err(ArrayError::Claimed { pid })
            }
        }
    }

    pub(super) fn end_view(&self, slot: usize) {
        if let Ok(views) = self.word(slot, VIEWS) {
            // SYNC array-use: the Release publishes what was written through the view, for whoever claims a part.
            views.fetch_sub(1, Ordering::Release);
        }
    }

    /// Claims the part of this process, unless it is claimed, or a view is open.
    pub(super) fn begin_part(&self, slot: usize) -> Result<(), ArrayError> {
        let word = self.word(slot, CLAIM)?;
        // SYNC array-use: SeqCst, for the one order of ARR-2, also where it fails, which is cheaper to think of.
        let claimed = word.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst);
        if claimed.is_err() {
            let pid = std::process::id();
            return Err(ArrayError::Claimed { pid });
        }
        match self.find(VIEWS) {
            Ok(None) => Ok(()),
            in_use => {
                self.end_part(slot);
                let pid = in_use?.unwrap_or_default();
                Err(ArrayError::InUse { pid })
            }
        }
    }

    pub(super) fn end_part(&self, slot: usize) {
        if let Ok(word) = self.word(slot, CLAIM) {
            // SYNC array-use: the Release publishes what was written to the part, for whoever opens a view.
            word.store(0, Ordering::Release);
        }
    }
}

/// The type with this number.
fn dtype_of(number: u64) -> Option<DType> {
    use DType::{BF16, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    let all = [U8, U16, U32, U64, I8, I16, I32, I64, F32, F64, F16, BF16];
    all.into_iter().find(|dtype| *dtype as u64 == number)
}
