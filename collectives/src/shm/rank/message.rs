//! Messages from one rank to another, beside operations: at most one in flight from each rank to each, in a block of
//! the sender.

use std::sync::Arc;
use std::time::Duration;

use selvedge_channels::Tensor;

use super::Rank;
use super::advance::write_head;
use super::patience::is_of_the_dying;
use crate::error::CommError;
use crate::rendezvous::Loan;
use crate::shm::output::tensors;
use crate::shm::share::Product;

impl Rank {
    /// Returns the message that a rank has sent, as a view.
    pub(super) fn take_message(
        &mut self,
        from: usize,
        (block, head_len): (u64, u64),
    ) -> Result<Vec<Tensor>, CommError> {
        let encoded = self.head_of(from, block, head_len)?;
        let template = self.template_with(encoded)?;
        let parts = template
            .heads
            .0
            .iter()
            .cloned()
            .zip(template.spans.iter().map(|span| span.offset))
            .collect();
        let product = Product::View {
            owner: from,
            index: block as usize,
            parts,
        };
        tensors(product, &self.shared, self.rank, &mut self.mapped)
    }

    /// Implements [`send`](crate::Communicator::send).
    pub(super) fn send_message(
        &mut self,
        to: usize,
        tensors: &[Tensor],
        timeout: Option<Duration>,
    ) -> Result<(), CommError> {
        self.shared.has(to)?;
        let before = self.sent.get(to).copied().unwrap_or_default();
        let free = self.until(timeout, |rank| {
            if rank.shared.words.taken(rank.rank, to)? >= before {
                return rank.ended().map(Some);
            }
            rank.awaited(to).map(|()| None)
        })?;
        let late = |waited| CommError::NoMessage {
            rank: to,
            waited,
            what: "taken the last message to it",
        };
        free.map_err(late)?;
        let template = self.template(tensors.iter().map(|tensor| (tensor.dtype(), tensor.shape())))?;
        let mut loan = Loan::new(Arc::clone(&self.shared), &mut self.blocks, template)?;
        for (index, tensor) in tensors.iter().enumerate() {
            loan.fill(index, 0, tensor.bytes())?;
        }
        let Loan { taken, template, .. } = loan;
        write_head(&taken.region, &template.encoded)?;
        self.blocks.sent(&taken, to, before + 1);
        self.shared
            .words
            .send(self.rank, to, before + 1, taken.index, template.encoded.len())?;
        if let Some(sent) = self.sent.get_mut(to) {
            *sent += 1;
        }
        self.ring_others();
        Ok(())
    }

    /// Implements [`recv`](crate::Communicator::recv).
    pub(super) fn recv_message(
        &mut self,
        from: usize,
        timeout: Option<Duration>,
    ) -> Result<Vec<Tensor>, CommError> {
        self.shared.has(from)?;
        let number = self.received.get(from).copied().unwrap_or_default() + 1;
        let received = self.until(timeout, |rank| {
            let awaited = rank.awaited(from);
            // The message is read after the check of its sender, which may have sent it and then left.
            let Some(message) = rank.shared.words.sent(from, rank.rank, number)? else {
                return awaited.map(|()| None);
            };
            match rank.take_message(from, message) {
                Err(error) if is_of_the_dying(&error) => match rank.find_gone() {
                    Some(gone) => Err(gone),
                    None => Ok(None),
                },
                taken => taken.map(Some),
            }
        })?;
        let late = |waited| CommError::NoMessage {
            rank: from,
            waited,
            what: "sent anything",
        };
        let tensors = received.map_err(late)?;
        self.shared.words.take(from, self.rank, number)?;
        if let Some(received) = self.received.get_mut(from) {
            *received = number;
        }
        self.ring_others();
        Ok(tensors)
    }
}
