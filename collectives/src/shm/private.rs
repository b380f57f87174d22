//! Reductions of memory that the group does not know: copied only where other ranks reduce it.

use selvedge_channels::{Element, bytes_of};

use super::rank::{Own, Rank, RankState};
use super::share::{Private, is_one_shot, slice};
use crate::communicator::{Communicator, PlanId};
use crate::error::CommError;

impl Rank {
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
        let (from, count) = if one_shot {
            (0, 0)
        } else {
            slice(&span, self.rank(), self.world_size())
        };
        let size = size_of::<E>();
        let begin = Private(piece.as_mut_ptr().cast());
        let bytes = bytes_of(piece);
        loan.fill(0, 0, bytes.get(..from * size).unwrap_or_default())?;
        loan.fill(
            0,
            (from + count) * size,
            bytes.get((from + count) * size..).unwrap_or_default(),
        )?;
        self.bring(operation, loan, Own::Private(begin))?;
        let outcome = self.wait(None);
        if let RankState::Agreeing { proposal, own } = &mut self.state {
            // The wait was too long, and the caller may free the piece: a copy takes its place.
            *own = Own::Block;
            if let Some(block) = &proposal.block {
                let own = bytes_of(piece).get(from * size..(from + count) * size);
                block.write(span.offset + from * size, own.unwrap_or_default())?;
            }
        }
        let result = outcome?;
        if one_shot {
            return Ok(());
        }
        let reduced = result.first().ok_or(CommError::Idle)?.as_slice::<E>()?;
        let after = from + count;
        for (to, from) in [(0..from, 0..from), (after..span.count, after..span.count)] {
            if let (Some(to), Some(from)) = (piece.get_mut(to), reduced.get(from)) {
                to.copy_from_slice(from);
            }
        }
        Ok(())
    }
}
