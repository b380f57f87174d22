//! Reductions of memory that the group does not know: copied only where other ranks reduce it.

use selvedge_channels::{Element, Tensor, bytes_of};

use super::rank::{Own, Rank, RankState};
use super::share::{Private, is_one_shot, slice};
use crate::communicator::{Communicator, PlanId};
use crate::error::CommError;

/// Ends the operation of a rank that holds the address of a caller's memory, when a panic takes the caller out of its wait: the
/// caller may free the memory, and the rank may be polled again.
struct EndsUnwound<'r>(&'r mut Rank);

impl Drop for EndsUnwound<'_> {
    fn drop(&mut self) {
        self.0.state = RankState::Idle;
        self.0.participant.give_up();
    }
}

impl Rank {
    /// Waits for an operation that uses memory of the caller in place. If this returns, the caller takes the memory back from
    /// the operation, if that is not over.
    pub(super) fn wait_with_private(&mut self) -> Result<Vec<Tensor>, CommError> {
        let ends = EndsUnwound(self);
        let outcome = ends.0.wait(None);
        std::mem::forget(ends);
        outcome
    }

    /// Reduces one piece of a vector. Other ranks find in this rank's block the data that they reduce; this rank's own
    /// slice stays in place.
    pub(super) fn allreduce_piece<E: Element>(
        &mut self,
        plan: PlanId,
        piece: &mut [E],
        whole: usize,
    ) -> Result<(), CommError> {
        let operation = self.may_launch(plan)?;
        let (shape, ends) = ([piece.len()], [0, whole]);
        // The shape of an empty part contains the length of the whole vector, so that ranks with other lengths fail at
        // the first piece.
        let parts = [(E::DTYPE, shape.as_slice()), (E::DTYPE, ends.as_slice())];
        let mut loan = self.loan(&parts)?;
        let span = loan.template.spans.first().copied().ok_or(CommError::Idle)?;
        // The block contains the data that other ranks reduce: all of it if every rank reduces everything.
        let one_shot = is_one_shot(&loan.template);
        let own = if one_shot {
            0..0
        } else {
            let (from, count) = slice(&span, self.rank(), self.world_size());
            from..from + count
        };
        let others = [0..own.start, own.end..piece.len()];
        let begin = Private(piece.as_mut_ptr().cast());
        for range in others.clone() {
            let at = range.start * size_of::<E>();
            loan.fill(0, at, bytes_of(piece.get(range).unwrap_or_default()))?;
        }
        self.bring(operation, loan, Own::Private(begin))?;
        let outcome = self.wait_with_private();
        if let RankState::Agreeing {
            proposal,
            own: memory,
        } = &mut self.state
        {
            // The wait was too long, and the caller may free the piece: a copy takes its place.
            *memory = Own::Block;
            if let Some(block) = &proposal.block {
                let at = span.offset + own.start * size_of::<E>();
                block.write(at, bytes_of(piece.get(own).unwrap_or_default()))?;
            }
        }
        let result = outcome?;
        if one_shot {
            return Ok(());
        }
        let reduced = result.first().ok_or(CommError::Idle)?.as_slice::<E>()?;
        for range in others {
            if let (Some(to), Some(from)) = (piece.get_mut(range.clone()), reduced.get(range)) {
                to.copy_from_slice(from);
            }
        }
        Ok(())
    }
}
