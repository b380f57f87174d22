//! Loans: messages of numbers and tensors that are built in place, and the place of a message in a slot before it is sent.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use crate::error::ChannelError;
use crate::kind::{AnySink, Sink};
use crate::payload::{Element, NumbersFrame, Tensor, Wire};
use crate::shared::{Lent, SharedWriter};

/// The place of a message before it is sent: a value of the sender's own, or, between processes, a slot.
enum LoanPlace<'w, T: Wire> {
    Own { sink: &'w mut AnySink<T>, value: T },
    Slot(SlotLoan<'w>),
}

impl<T: Wire> LoanPlace<'_, T> {
    /// Sends what was written into the next slot, which is free.
    fn publish(self) -> Result<(), ChannelError> {
        match self {
            LoanPlace::Slot(slot) => slot.publish(),
            LoanPlace::Own { sink, value } => match sink.put(&mut Some(Ok(value)))? {
                true => Ok(()),
                false => Err(ChannelError::Full),
            },
        }
    }
}

/// The error for `count` numbers that no memory has room for.
fn too_large<E>(count: u64) -> ChannelError {
    ChannelError::TooLarge {
        need_bytes: count.saturating_mul(size_of::<E>() as u64),
        max_bytes: isize::MAX as u64,
    }
}

/// The memory for the numbers of the next message, as a slice of them. Dropping it sends nothing.
#[must_use = "`publish` sends what is written here"]
pub struct Loan<'w, E: Element>
where
    Vec<E>: Wire,
{
    place: LoanPlace<'w, Vec<E>>,
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
        let too_large = || too_large::<E>(len as u64);
        let place = if sink.lender().is_none() {
            let mut value = Vec::new();
            value.try_reserve_exact(len).map_err(|_| too_large())?;
            value.resize(len, E::default());
            LoanPlace::Own { sink, value }
        } else {
            let frame = NumbersFrame::of::<E>(len).ok_or_else(too_large)?;
            LoanPlace::Slot(SlotLoan::of(sink.lender(), frame)?)
        };
        Ok(Loan { place })
    }

    /// Sends the numbers that were written, without a copy.
    ///
    /// # Errors
    /// The errors of the channel. [`ChannelError::Full`] never occurs, because the slot is free.
    pub fn publish(self) -> Result<(), ChannelError> {
        self.place.publish()
    }
}

impl<E: Element> Deref for Loan<'_, E>
where
    Vec<E>: Wire,
{
    type Target = [E];

    fn deref(&self) -> &[E] {
        match &self.place {
            LoanPlace::Own { value, .. } => value,
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
            LoanPlace::Own { value, .. } => value,
            LoanPlace::Slot(slot) => slot.numbers_mut(),
        }
    }
}

/// The memory for the elements of the next tensor, row-major, as a slice of them. Dropping it sends nothing.
#[must_use = "`publish` sends what is written here"]
pub struct TensorLoan<'w, E: Element> {
    place: LoanPlace<'w, Tensor>,
    elements: PhantomData<E>,
}

impl<E: Element> fmt::Debug for TensorLoan<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TensorLoan").field("len", &self.len()).finish()
    }
}

impl<'w, E: Element> TensorLoan<'w, E> {
    /// Lends the memory for a tensor of `shape` in the next slot, which must be free.
    pub(super) fn of(sink: &'w mut AnySink<Tensor>, shape: &[usize]) -> Result<Self, ChannelError> {
        let count = shape
            .iter()
            .fold(1, |count: u64, size| count.saturating_mul(*size as u64));
        let too_large = || too_large::<E>(count);
        let place = if sink.lender().is_none() {
            let value = Tensor::zeros::<E>(shape).map_err(|_| too_large())?;
            LoanPlace::Own { sink, value }
        } else {
            let frame = NumbersFrame::of_tensor::<E>(shape).ok_or_else(too_large)?;
            LoanPlace::Slot(SlotLoan::of(sink.lender(), frame)?)
        };
        Ok(TensorLoan {
            place,
            elements: PhantomData,
        })
    }

    /// Sends the elements that were written, without a copy.
    ///
    /// # Errors
    /// The errors of the channel. [`ChannelError::Full`] never occurs, because the slot is free.
    pub fn publish(self) -> Result<(), ChannelError> {
        self.place.publish()
    }
}

impl<E: Element> Deref for TensorLoan<'_, E> {
    type Target = [E];

    fn deref(&self) -> &[E] {
        match &self.place {
            // The access cannot fail: `of` has made the tensor with this element type and length, in memory of the
            // host.
            LoanPlace::Own { value, .. } => value.as_slice().unwrap_or_default(),
            LoanPlace::Slot(slot) => slot.numbers(),
        }
    }
}

impl<E: Element> DerefMut for TensorLoan<'_, E> {
    fn deref_mut(&mut self) -> &mut [E] {
        match &mut self.place {
            LoanPlace::Own { value, .. } => value.as_mut_slice().unwrap_or_default(),
            LoanPlace::Slot(slot) => slot.numbers_mut(),
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
