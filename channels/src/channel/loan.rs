//! Loans: messages of numbers and tensors that are built in place, and the place of a message in a slot before it is sent.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use crate::error::ChannelError;
use crate::kind::{AnySink, Sink};
use crate::payload::{Element, NumbersFrame, Tensor, Wire};
use crate::shared::{Lent, SharedWriter};

/// The memory for the numbers of the next message, as a slice of them. Dropping it sends nothing.
#[must_use = "`publish` sends what is written here"]
pub struct Loan<'w, E: Element>
where
    Vec<E>: Wire,
{
    place: LoanPlace<'w, E>,
}

enum LoanPlace<'w, E: Element>
where
    Vec<E>: Wire,
{
    Own {
        sink: &'w mut AnySink<Vec<E>>,
        numbers: Vec<E>,
    },
    Slot(SlotLoan<'w>),
}

impl<E: Element> fmt::Debug for Loan<'_, E>
where
    Vec<E>: Wire,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loan").field("len", &self.len()).finish()
    }
}

impl<'w, E: Element> Loan<'w, E>
where
    Vec<E>: Wire,
{
    /// Lends the memory for `len` numbers in the next slot, which must be free.
    pub(super) fn of(sink: &'w mut AnySink<Vec<E>>, len: usize) -> Result<Self, ChannelError> {
        let place = if sink.lender().is_none() {
            let mut numbers = Vec::new();
            let too_large = |_| ChannelError::TooLarge {
                need_bytes: (len as u64).saturating_mul(size_of::<E>() as u64),
                max_bytes: isize::MAX as u64,
            };
            numbers.try_reserve_exact(len).map_err(too_large)?;
            numbers.resize(len, E::default());
            LoanPlace::Own { sink, numbers }
        } else {
            let frame = NumbersFrame::of::<E>(len).ok_or(ChannelError::TooLarge {
                need_bytes: u64::MAX,
                max_bytes: isize::MAX as u64,
            })?;
            LoanPlace::Slot(SlotLoan::of(sink.lender(), frame)?)
        };
        Ok(Loan { place })
    }

    /// Sends the numbers that were written, without a copy.
    ///
    /// # Errors
    /// The errors of the channel. [`ChannelError::Full`] never occurs, because the slot is free.
    pub fn publish(self) -> Result<(), ChannelError> {
        match self.place {
            LoanPlace::Own { sink, numbers } => put(sink, numbers),
            LoanPlace::Slot(slot) => slot.publish(),
        }
    }
}

impl<E: Element> Deref for Loan<'_, E>
where
    Vec<E>: Wire,
{
    type Target = [E];

    fn deref(&self) -> &[E] {
        match &self.place {
            LoanPlace::Own { numbers, .. } => numbers,
            LoanPlace::Slot(slot) => slot.numbers(),
        }
    }
}

impl<E: Element> DerefMut for Loan<'_, E>
where
    Vec<E>: Wire,
{
    fn deref_mut(&mut self) -> &mut [E] {
        match &mut self.place {
            LoanPlace::Own { numbers, .. } => numbers,
            LoanPlace::Slot(slot) => slot.numbers_mut(),
        }
    }
}

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

/// A lent slot, with the frame of the numbers that are written into it.
pub(super) struct SlotLoan<'w> {
    writer: &'w mut SharedWriter,
    lent: Lent,
    frame: NumbersFrame,
}

impl<'w> SlotLoan<'w> {
    /// Lends the place for a frame in the next slot, which must be free.
    pub(super) fn of(
        lender: Option<&'w mut SharedWriter>,
        frame: NumbersFrame,
    ) -> Result<Self, ChannelError> {
        let writer = lender.ok_or(ChannelError::Full)?;
        let lent = writer.lend(frame.len_bytes())?;
        frame.write_prefix(writer.lent_mut(&lent)?);
        Ok(SlotLoan { writer, lent, frame })
    }

    /// The numbers. The access cannot fail, because `of` has checked place and length.
    pub(super) fn numbers<E: Element>(&self) -> &[E] {
        let bytes = self.writer.lent(&self.lent);
        bytes.map_or(&[], |bytes| self.frame.numbers(bytes))
    }

    /// The numbers, for writing.
    pub(super) fn numbers_mut<E: Element>(&mut self) -> &mut [E] {
        let bytes = self.writer.lent_mut(&self.lent);
        bytes.map_or(&mut [], |bytes| self.frame.numbers_mut(bytes))
    }

    /// Sends the numbers that were written.
    pub(super) fn publish(self) -> Result<(), ChannelError> {
        self.writer.publish_lent(&self.lent)
    }
}

/// Sends a value into the next slot, which is free.
pub(super) fn put<T: Wire>(sink: &mut AnySink<T>, value: T) -> Result<(), ChannelError> {
    if sink.put(&mut Some(Ok(value)))? {
        return Ok(());
    }
    Err(ChannelError::Full)
}
