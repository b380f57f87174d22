//! Progress of one operation, from the agreement to the result.

use selvedge_channels::{Tensor, fault_point};

use super::rank::{Own, Rank, RankState};
use super::share::{BlockOf, Exchange, Product};
use super::staging::Rings;
use crate::communicator::Communicator;
use crate::error::CommError;
use crate::operation::Collective;
use crate::parts::Template;
use crate::rendezvous::Arrival;

impl Rank {
    /// Advances the operation as far as possible. Returns `None` while it waits for other ranks.
    pub(super) fn advance(&mut self) -> Result<Option<Vec<Tensor>>, CommError> {
        if matches!(self.state, RankState::Agreeing { .. }) && !self.share()? {
            return Ok(None);
        }
        match self.state {
            RankState::Passing { .. } => self.pass_vector(),
            _ => self.collect(),
        }
    }

    /// Does this rank's share once all ranks agree on the operation. Returns `false` while it waits for other ranks.
    fn share(&mut self) -> Result<bool, CommError> {
        let RankState::Agreeing { proposal, own } = &mut self.state else {
            return Err(CommError::Idle);
        };
        let Some(agreed) = self.participant.agree(proposal)? else {
            return Ok(false);
        };
        let (operation, rings) = (proposal.operation, matches!(own, Own::Vector(_)));
        let mapped = self.map(operation, rings);
        let Some(results) = self.participant.unless_dying(mapped)? else {
            return Ok(false);
        };
        self.contribute(agreed.template.as_deref(), results)?;
        Ok(true)
    }

    /// Does this rank's share of the operation on which all ranks agree.
    fn contribute(&mut self, template: Option<&Template>, results: Option<BlockOf>) -> Result<(), CommError> {
        let RankState::Agreeing { proposal, own } = std::mem::replace(&mut self.state, RankState::Idle)
        else {
            return Err(CommError::Idle);
        };
        fault_point::at("rank: before its share");
        let private = match own {
            Own::Block => None,
            Own::Private(private) => Some(private),
            Own::Vector(vector) => {
                self.state = RankState::Passing { proposal, vector };
                return Ok(());
            }
        };
        let exchange = template.map(|template| Exchange {
            operation: proposal.operation,
            template,
            blocks: &self.blocks,
            mapped: &self.participant.mapped,
            results,
            rank: self.participant.rank,
            private,
        });
        let share = |exchange: Exchange<'_>| exchange.share(&mut self.sources);
        let (product, together) = exchange.map_or(Ok((Product::Nothing, false)), share)?;
        fault_point::at("rank: after its share");
        self.participant.done()?;
        self.state = RankState::Sharing {
            _proposal: proposal,
            product,
            done: if together { 0 } else { self.world_size() },
        };
        Ok(())
    }

    /// Maps the blocks that the operation reads. Returns the block in which results are gathered.
    fn map(&mut self, operation: Collective, rings: bool) -> Result<Option<BlockOf>, CommError> {
        self.blocks.clear();
        for rank in 0..self.participant.group.ranks() {
            let block = if rings {
                // The contributions pass through the rings, chunk by chunk.
                Some(self.block(rank, |arrival| arrival.results)?)
            } else if operation.reads(rank) {
                Some(self.block(rank, |arrival| arrival.block)?)
            } else {
                None
            };
            self.blocks.push(block);
        }
        let gatherer = operation.gatherer();
        gatherer
            .map(|rank| self.block(rank, |arrival| arrival.results))
            .transpose()
    }

    fn block(&mut self, rank: usize, which: impl Fn(&Arrival) -> u64) -> Result<BlockOf, CommError> {
        let index = which(&self.participant.arrival(rank));
        self.participant.map(rank, index)?;
        let index = index as usize;
        Ok(BlockOf { owner: rank, index })
    }

    /// Returns the result once the shares of all ranks are done.
    fn collect(&mut self) -> Result<Option<Vec<Tensor>>, CommError> {
        let RankState::Sharing { done, .. } = &mut self.state else {
            return Err(CommError::Idle);
        };
        while *done < self.participant.group.ranks() {
            let rank = *done;
            if !self.participant.is_done(rank)? {
                self.participant.missing(rank, |this| this.is_done(rank))?;
                return Ok(None);
            }
            *done += 1;
        }
        let RankState::Sharing { product, .. } = std::mem::replace(&mut self.state, RankState::Idle) else {
            return Err(CommError::Idle);
        };
        let made = match product {
            Product::Nothing => Ok(Vec::new()),
            Product::Made(made) => made,
            Product::View(view) => self.participant.view(&view),
        };
        self.participant.finish()?;
        made.map(Some)
    }

    /// Whether rank `other` has done the step for which this rank waits now.
    pub(super) fn has_come(&self, other: usize) -> Result<bool, CommError> {
        match &self.state {
            RankState::Agreeing { .. } => self.participant.has_arrived(other),
            RankState::Passing { .. } if other == self.participant.rank => Ok(true),
            RankState::Passing { vector, .. } => {
                vector.may_pass(&Rings::new(&self.participant, &self.blocks, self.passed))
            }
            _ => self.participant.is_done(other),
        }
    }
}
