//! The elements of a shared array, and their places.

use std::ops::{Deref, Range};
use std::sync::Arc;

use selvedge_channels::Element;
use selvedge_channels::array::ArrayView;

use super::array_type::Identity;
use super::error::SharedArrayError;
use crate::sealed::Sealed;

/// The place of an element: its number in memory order, or its index in each dimension. The last dimension is the one whose elements lie
/// beside each other. The trait cannot be implemented outside.
pub trait ArrayIndex: Sealed + Copy {
    /// The number of the element in an array of this shape, in memory order.
    ///
    /// # Errors
    /// [`SharedArrayError::Index`].
    fn offset(self, shape: &[usize]) -> Result<usize, SharedArrayError>;
}

impl Sealed for usize {}

impl<const N: usize> Sealed for [usize; N] {}

impl ArrayIndex for usize {
    #[inline]
    fn offset(self, _: &[usize]) -> Result<usize, SharedArrayError> {
        // The view checks it.
        Ok(self)
    }
}

impl<const N: usize> ArrayIndex for [usize; N] {
    #[inline]
    fn offset(self, shape: &[usize]) -> Result<usize, SharedArrayError> {
        let mut offset = 0_usize;
        let mut fits = shape.len() == N;
        for (index, length) in self.iter().zip(shape) {
            fits &= index < length;
            // An index that fits makes no number longer than the array.
            offset = usize::wrapping_add(offset.wrapping_mul(*length), *index);
        }
        if fits {
            Ok(offset)
        } else {
            Err(outside(&self, shape))
        }
    }
}

#[cold]
fn outside(index: &[usize], shape: &[usize]) -> SharedArrayError {
    SharedArrayError::Index {
        index: index.to_vec(),
        shape: shape.to_vec(),
    }
}

/// A view of all elements of a [`SharedArray`](super::SharedArray): each is read and written by itself, at the speed of memory, and is
/// never torn. What other processes write meanwhile is seen at some time: an order between processes comes from calls, channels and
/// collectives.
///
/// As long as a view is open, in any process, no process can [claim](super::SharedArray::claim) its part. Open one for a piece of work,
/// and drop it after that.
#[derive(Debug)]
pub struct SharedView<T> {
    view: ArrayView<T>,
    identity: Arc<Identity>,
}

impl<T: Element> SharedView<T> {
    pub(super) fn new(view: ArrayView<T>, identity: Arc<Identity>) -> Self {
        SharedView { view, identity }
    }

    /// The length of each dimension.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.identity.shape
    }

    /// Reads an element.
    ///
    /// # Errors
    /// [`SharedArrayError::Index`], [`ArrayError::OutOfBounds`](selvedge_channels::array::ArrayError::OutOfBounds).
    #[inline]
    pub fn get(&self, index: impl ArrayIndex) -> Result<T, SharedArrayError> {
        Ok(self.view.get(index.offset(&self.identity.shape)?)?)
    }

    /// Writes an element.
    ///
    /// # Errors
    /// As for [`get`](Self::get), and [`ArrayError::ReadOnly`](selvedge_channels::array::ArrayError::ReadOnly).
    #[inline]
    pub fn set(&self, index: impl ArrayIndex, value: T) -> Result<(), SharedArrayError> {
        Ok(self.view.set(index.offset(&self.identity.shape)?, value)?)
    }

    /// Copies the elements of a range, in memory order.
    ///
    /// # Errors
    /// As for [`get`](Self::get), and [`ArrayError::Reversed`](selvedge_channels::array::ArrayError::Reversed).
    pub fn read(&self, range: Range<usize>) -> Result<Vec<T>, SharedArrayError> {
        Ok(self.view.read(range)?)
    }

    /// Writes elements from one on, in memory order.
    ///
    /// # Errors
    /// As for [`set`](Self::set), before anything is written.
    pub fn write(&self, start: impl ArrayIndex, values: &[T]) -> Result<(), SharedArrayError> {
        Ok(self.view.write(start.offset(&self.identity.shape)?, values)?)
    }

    /// Writes one value to the elements of a range, in memory order.
    ///
    /// # Errors
    /// As for [`set`](Self::set), and [`ArrayError::Reversed`](selvedge_channels::array::ArrayError::Reversed), before anything is
    /// written.
    pub fn fill(&self, range: Range<usize>, value: T) -> Result<(), SharedArrayError> {
        Ok(self.view.fill(range, value)?)
    }
}

impl<T> Deref for SharedView<T> {
    type Target = ArrayView<T>;

    /// The view without the shape: its length, and the elements as a slice for `unsafe` code.
    fn deref(&self) -> &ArrayView<T> {
        &self.view
    }
}
