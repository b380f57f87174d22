//! Loans: messages of numbers that are built in place.

use std::fmt;
use std::ops::{Deref, DerefMut};

use super::slot_loan::{SlotLoan, put};
use crate::error::ChannelError;
use crate::kind::{AnySink, Sink};
use crate::payload::{Element, NumbersFrame, Wire};

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
