//! Messages from one rank to another, beside operations: at most one in flight from each rank to each, in a block of
//! the sender.

use std::time::Duration;

use selvedge_channels::Tensor;

use super::loan::Loan;
use super::participant::Participant;
use super::view::BlockView;
use crate::error::CommError;

impl Participant {
    /// Implements [`send`](crate::Communicator::send).
    pub(crate) fn send(
        &mut self,
        to: usize,
        tensors: &[Tensor],
        timeout: Option<Duration>,
    ) -> Result<(), CommError> {
        self.group.has(to)?;
        let free = Participant::until(self, timeout, |this| this.may_send(to))?;
        free.map_err(late(to, "taken the last message to it"))?;
        self.put(to, tensors)
    }

    /// Sends a message if the one before was taken; returns whether it was. Never waits.
    pub(crate) fn try_send(&mut self, to: usize, tensors: &[Tensor]) -> Result<bool, CommError> {
        self.group.has(to)?;
        match self.may_send(to)? {
            Some(()) => self.put(to, tensors).map(|()| true),
            None => Ok(false),
        }
    }

    fn may_send(&self, to: usize) -> Result<Option<()>, CommError> {
        let before = self.sent.get(to).copied().unwrap_or_default();
        if self.group.words.received(self.rank, to)? >= before {
            return self.group.ended().map(Some);
        }
        self.awaited(to).map(|()| None)
    }

    fn put(&mut self, to: usize, tensors: &[Tensor]) -> Result<(), CommError> {
        let number = self.sent.get(to).copied().unwrap_or_default() + 1;
        let mut loan = self.loan(tensors.iter().map(|tensor| (tensor.dtype(), tensor.shape())))?;
        for (index, tensor) in tensors.iter().enumerate() {
            loan.fill(index, 0, tensor.bytes())?;
        }
        let Loan { block, template, .. } = loan;
        block.write(0, &template.encoded)?;
        self.blocks.sent(&block, to, number);
        let words = &self.group.words;
        words.send(self.rank, to, number, block.index, template.encoded.len())?;
        if let Some(sent) = self.sent.get_mut(to) {
            *sent = number;
        }
        self.ring_others();
        Ok(())
    }

    /// Implements [`recv`](crate::Communicator::recv).
    pub(crate) fn recv(&mut self, from: usize, timeout: Option<Duration>) -> Result<Vec<Tensor>, CommError> {
        self.group.has(from)?;
        let received = Participant::until(self, timeout, |this| this.next_from(from))?;
        let tensors = received.map_err(late(from, "sent anything"))?;
        self.took(from)?;
        Ok(tensors)
    }

    /// Receives the next message of a rank if it is there. Never waits.
    pub(crate) fn try_recv(&mut self, from: usize) -> Result<Option<Vec<Tensor>>, CommError> {
        self.group.has(from)?;
        let found = self.next_from(from)?;
        if found.is_some() {
            self.took(from)?;
        }
        Ok(found)
    }

    fn next_from(&mut self, from: usize) -> Result<Option<Vec<Tensor>>, CommError> {
        let number = self.received.get(from).copied().unwrap_or_default() + 1;
        let awaited = self.awaited(from);
        // The message is read after the check of its sender, which may have sent it and then left.
        let Some((block, head_len)) = self.group.words.sent(from, self.rank, number)? else {
            return awaited.map(|()| None);
        };
        let tensors = self.message(from, block, head_len);
        self.unless_dying(tensors)
    }

    fn took(&mut self, from: usize) -> Result<(), CommError> {
        let number = self.received.get(from).copied().unwrap_or_default() + 1;
        self.group.words.receive(from, self.rank, number)?;
        if let Some(received) = self.received.get_mut(from) {
            *received = number;
        }
        self.ring_others();
        Ok(())
    }

    /// Returns the message that a rank has sent, as a view.
    fn message(&mut self, from: usize, block: u64, head_len: u64) -> Result<Vec<Tensor>, CommError> {
        let encoded = self.head(from, block, head_len)?;
        let template = self.template_with(encoded)?;
        let offsets = template.spans.iter().map(|span| span.offset);
        self.view(&BlockView {
            owner: from,
            index: block as usize,
            parts: template.heads.0.iter().cloned().zip(offsets).collect(),
        })
    }
}

/// Returns the error for a rank that has not done something in time.
fn late(rank: usize, what: &'static str) -> impl FnOnce(Duration) -> CommError {
    move |waited| CommError::NoMessage { rank, waited, what }
}
