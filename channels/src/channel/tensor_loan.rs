//! Tensor loans: tensors that are built in place.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use super::slot_loan::{SlotLoan, put};
use crate::error::ChannelError;
use crate::kind::{AnySink, Sink};
use crate::payload::{Element, NumbersFrame, Tensor};

/// The memory for the elements of the next tensor, row-major, as a slice of them. Dropping it sends nothing.
#[must_use = "`publish` sends what is written here"]
pub struct TensorLoan<'w, E: Element> {
    place: TensorLoanPlace<'w, E>,
}

enum TensorLoanPlace<'w, E: Element> {
    Own {
        sink: &'w mut AnySink<Tensor>,
        tensor: Tensor,
        elements: PhantomData<E>,
    },
    Slot(SlotLoan<'w>),
}

impl<E: Element> fmt::Debug for TensorLoan<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TensorLoan").field("len", &self.len()).finish()
    }
}

impl<'w, E: Element> TensorLoan<'w, E> {
    /// Lends the memory for a tensor of `shape` in the next slot, which must be free.
    pub(super) fn of(sink: &'w mut AnySink<Tensor>, shape: &[usize]) -> Result<Self, ChannelError> {
        let too_large = || ChannelError::TooLarge {
            need_bytes: shape.iter().fold(size_of::<E>() as u64, |bytes, size| {
                bytes.saturating_mul(*size as u64)
            }),
            max_bytes: isize::MAX as u64,
        };
        let place = if sink.lender().is_none() {
            TensorLoanPlace::Own {
                sink,
                tensor: Tensor::zeros::<E>(shape).map_err(|_| too_large())?,
                elements: PhantomData,
            }
        } else {
            let frame = NumbersFrame::of_tensor::<E>(shape).ok_or_else(too_large)?;
            TensorLoanPlace::Slot(SlotLoan::of(sink.lender(), frame)?)
        };
        Ok(TensorLoan { place })
    }

    /// Sends the elements that were written, without a copy.
    ///
    /// # Errors
    /// The errors of the channel. [`ChannelError::Full`] never occurs, because the slot is free.
    pub fn publish(self) -> Result<(), ChannelError> {
        match self.place {
            TensorLoanPlace::Own { sink, tensor, .. } => put(sink, tensor),
            TensorLoanPlace::Slot(slot) => slot.publish(),
        }
    }
}

impl<E: Element> Deref for TensorLoan<'_, E> {
    type Target = [E];

    fn deref(&self) -> &[E] {
        match &self.place {
            // The access cannot fail: `of` has made the tensor with this element type and length, in memory of the
            // host.
            TensorLoanPlace::Own { tensor, .. } => tensor.as_slice().unwrap_or_default(),
            TensorLoanPlace::Slot(slot) => slot.numbers(),
        }
    }
}

impl<E: Element> DerefMut for TensorLoan<'_, E> {
    fn deref_mut(&mut self) -> &mut [E] {
        match &mut self.place {
            TensorLoanPlace::Own { tensor, .. } => tensor.as_mut_slice().unwrap_or_default(),
            TensorLoanPlace::Slot(slot) => slot.numbers_mut(),
        }
    }
}
