//! All elements, one by one.
#![allow(unsafe_code)] // accesses elements by address

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use super::elements::{load, store};
use super::error::ArrayError;
use super::memory::ArrayMemory;
use crate::in_use;
use crate::memory::made_in::MadeIn;
use crate::payload::Element;

/// A view of all elements of an array. Elements are read and written one by one, by relaxed atomics: at the speed of memory, and
/// each element is whole, but nothing is said of the order of two of them. As long as a view is open, no part can be claimed.
pub struct ArrayView<T> {
    memory: Arc<ArrayMemory>,
    /// The address of the first element, beside the length, so that an access costs one comparison.
    base: NonNull<T>,
    len: usize,
    is_writable: bool,
    made_in: MadeIn,
    of: PhantomData<T>,
}

// SAFETY: elements are accessed atomically (ARR-1), and `T` is a number.
unsafe impl<T: Element> Send for ArrayView<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Element> Sync for ArrayView<T> {}

impl<T> std::fmt::Debug for ArrayView<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArrayView")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl<T> Drop for ArrayView<T> {
    fn drop(&mut self) {
        // The copy that a forked child has is not counted.
        if self.made_in.is_here() {
            in_use::end_view(&self.memory.control, self.memory.slot);
        }
    }
}

impl<T: Element> ArrayView<T> {
    /// Opens a view.
    ///
    /// # Errors
    /// [`ArrayError::WrongType`]; [`ArrayError::Claimed`] if a process has claimed its part.
    pub fn open(memory: &Arc<ArrayMemory>) -> Result<Self, ArrayError> {
        memory.check(T::DTYPE)?;
        Self::of_size(memory)
    }

    /// Opens a view of elements as numbers of their size, which `T` is.
    pub(super) fn of_size(memory: &Arc<ArrayMemory>) -> Result<Self, ArrayError> {
        let (has, wanted) = (size_of::<T>(), memory.spec.dtype.size_bytes());
        if has != wanted {
            return Err(ArrayError::WrongLength { has, wanted });
        }
        in_use::begin_view(&memory.control, memory.slot)?;
        Ok(ArrayView {
            base: memory.base.cast(),
            len: memory.spec.len,
            is_writable: memory.is_writable(),
            memory: Arc::clone(memory),
            made_in: MadeIn::here(),
            of: PhantomData,
        })
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address of an element.
    #[inline]
    fn at(&self, index: usize) -> Result<*mut T, ArrayError> {
        if index >= self.len {
            return Err(self.memory.out_of_bounds(index));
        }
        // SAFETY: inside the mapping, which has `len` elements.
        Ok(unsafe { self.base.as_ptr().add(index) })
    }

    /// Reads an element.
    ///
    /// # Errors
    /// [`ArrayError::OutOfBounds`].
    #[inline]
    pub fn get(&self, index: usize) -> Result<T, ArrayError> {
        let at = self.at(index)?;
        // SAFETY: in bounds and aligned; no part is claimed while this view is open (ARR-2), so all accesses are atomic (ARR-1).
        Ok(unsafe { load(at) })
    }

    /// Writes an element.
    ///
    /// # Errors
    /// [`ArrayError::OutOfBounds`], [`ArrayError::ReadOnly`].
    #[inline]
    pub fn set(&self, index: usize, value: T) -> Result<(), ArrayError> {
        let at = self.at(index)?;
        if !self.is_writable {
            return Err(ArrayError::ReadOnly);
        }
        // SAFETY: as for `get`, and the mapping is writable.
        unsafe { store(at, value) };
        Ok(())
    }

    /// Whether a range lies in the array.
    fn inside(&self, range: &Range<usize>) -> Result<(), ArrayError> {
        let Range { start, end } = *range;
        match end <= self.len {
            true if start <= end => Ok(()),
            true => Err(ArrayError::Reversed { start, end }),
            false => Err(self.memory.out_of_bounds(end)),
        }
    }

    /// Copies the elements of a range.
    ///
    /// # Errors
    /// [`ArrayError::OutOfBounds`], [`ArrayError::Reversed`].
    pub fn read(&self, range: Range<usize>) -> Result<Vec<T>, ArrayError> {
        self.inside(&range)?;
        range.map(|index| self.get(index)).collect()
    }

    /// Writes elements from `start` on.
    ///
    /// # Errors
    /// [`ArrayError::OutOfBounds`], before anything is written; [`ArrayError::ReadOnly`].
    pub fn write(&self, start: usize, values: &[T]) -> Result<(), ArrayError> {
        self.inside(&(start..start.saturating_add(values.len())))?;
        values
            .iter()
            .zip(start..)
            .try_for_each(|(value, index)| self.set(index, *value))
    }

    /// Writes one value to the elements of a range.
    ///
    /// # Errors
    /// [`ArrayError::OutOfBounds`] and [`ArrayError::Reversed`], before anything is written; [`ArrayError::ReadOnly`].
    pub fn fill(&self, range: Range<usize>, value: T) -> Result<(), ArrayError> {
        self.inside(&range)?;
        range.into_iter().try_for_each(|index| self.set(index, value))
    }

    /// All elements, as a slice.
    ///
    /// # Safety
    /// As long as the slice lives, no thread or process may write an element.
    #[must_use]
    pub unsafe fn as_slice(&self) -> &[T] {
        // SAFETY: the mapping has `len` elements, lives as long as the view, and nobody writes it, by the caller's promise.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}
