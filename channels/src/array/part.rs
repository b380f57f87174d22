//! The own part, as a slice.
#![allow(unsafe_code)] // makes a slice of claimed elements

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

use super::error::ArrayError;
use super::memory::ArrayMemory;
use super::split::part_of;
use crate::in_use;
use crate::memory::made_in::MadeIn;
use crate::payload::Element;

/// The part of this process, claimed: a slice that nobody else uses until it is dropped. Of an array of a file that is a promise of
/// whoever named the file, also for programs that write it without asking for its lock (`ARR-6`).
pub struct ArrayPart<T> {
    memory: Arc<ArrayMemory>,
    range: Range<usize>,
    made_in: MadeIn,
    of: PhantomData<T>,
}

impl<T> std::fmt::Debug for ArrayPart<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArrayPart")
            .field("range", &self.range)
            .finish_non_exhaustive()
    }
}

impl<T> Drop for ArrayPart<T> {
    fn drop(&mut self) {
        // The part that a forked child has a copy of is still the parent's.
        if self.made_in.is_here() {
            in_use::end_part(&self.memory.control, self.memory.slot);
        }
    }
}

impl<T: Element> ArrayPart<T> {
    /// Claims the part of this process, which is empty if its slot has none.
    ///
    /// # Errors
    /// [`ArrayError::WrongType`], [`ArrayError::ReadOnly`]; [`ArrayError::InUse`] if a view is open in any process;
    /// [`ArrayError::Claimed`] if this process has claimed its part already.
    pub fn claim(memory: &Arc<ArrayMemory>) -> Result<Self, ArrayError> {
        memory.check(T::DTYPE)?;
        memory.writable()?;
        in_use::begin_part(&memory.control, memory.slot)?;
        Ok(ArrayPart {
            range: part_of(memory.spec.len, memory.spec.parts, memory.slot),
            memory: Arc::clone(memory),
            made_in: MadeIn::here(),
            of: PhantomData,
        })
    }

    /// The places of the elements in the array.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    fn start(&self) -> *mut T {
        // SAFETY: the range lies in the mapping, by `part_of`.
        unsafe { self.memory.base.cast::<T>().as_ptr().add(self.range.start) }
    }
}

impl<T: Element> Deref for ArrayPart<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: inside the mapping; while the part is claimed no view is open (ARR-2), other parts are disjoint (ARR-3), and
        // nobody else writes the memory: it has no name, or is a file that belongs to the array (ARR-6).
        unsafe { std::slice::from_raw_parts(self.start(), self.range.len()) }
    }
}

impl<T: Element> DerefMut for ArrayPart<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`, and a part is claimed once.
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.range.len()) }
    }
}
