//! Agreement: the operation that all ranks do together, or the reason why they do not. Both follow from the arrivals,
//! which are equal for all ranks (`COLL-3`).

use std::sync::Arc;

use selvedge_channels::{Region, fault_point};

use super::block::LeasedBlock;
use super::participant::Participant;
use super::words::Arrival;
use crate::error::CommError;
use crate::operation::{Collective, Medium};
use crate::parts::{Head, Heads, Template};

impl Participant {
    /// Arrives at an operation: publishes this rank's contribution.
    pub(crate) fn arrive(&mut self, proposal: &Proposal) -> Result<(), CommError> {
        let number = self.number + 1;
        for block in proposal.blocks() {
            self.blocks.used_in(block, number);
        }
        fault_point::at("rank: before arriving");
        self.group.words.arrive(self.rank, number, proposal.arrival())?;
        fault_point::at("rank: after arriving");
        self.number = number;
        self.in_flight = Some(proposal.operation);
        self.ring_others();
        Ok(())
    }

    pub(crate) fn has_arrived(&self, rank: usize) -> Result<bool, CommError> {
        Ok(rank == self.rank || self.group.words.has_arrived(rank, self.number)?)
    }

    /// Returns the operation on which all ranks agree; `None` while a rank has not arrived. If the ranks do not agree,
    /// every rank gets the same error, and the operation is over.
    pub(crate) fn agree(&mut self, proposal: &mut Proposal) -> Result<Option<Agreed>, CommError> {
        while proposal.arrived < self.group.ranks() {
            let rank = proposal.arrived;
            if !self.has_arrived(rank)? {
                self.missing(rank, |this| this.has_arrived(rank))?;
                return Ok(None);
            }
            proposal.arrived += 1;
        }
        let agreed = self.compare(proposal);
        self.unless_dying(agreed)
    }

    /// Returns the contribution of a rank to the operation at which all ranks have arrived.
    pub(crate) fn arrival(&self, rank: usize) -> Arrival {
        let none = Arrival {
            block: Arrival::NO_BLOCK,
            results: Arrival::NO_BLOCK,
            ..Arrival::default()
        };
        self.arrivals.get(rank).copied().unwrap_or(none)
    }

    /// Publishes that this rank's share is done.
    pub(crate) fn done(&self) -> Result<(), CommError> {
        self.group.words.set_done(self.rank, self.number)?;
        self.ring_others();
        Ok(())
    }

    pub(crate) fn is_done(&self, rank: usize) -> Result<bool, CommError> {
        Ok(rank == self.rank || self.group.words.is_done(rank, self.number)?)
    }

    /// Publishes that this rank reads the blocks of others no more, except those that it holds.
    pub(crate) fn finish(&mut self) -> Result<(), CommError> {
        fault_point::at("rank: before finishing");
        self.group.words.set_finished(self.rank, self.number)?;
        self.in_flight = None;
        fault_point::at("rank: after finishing");
        Ok(())
    }

    /// Compares the contributions of all ranks.
    fn compare(&mut self, proposal: &Proposal) -> Result<Agreed, CommError> {
        let (operation, ranks) = (proposal.operation, self.group.ranks());
        self.arrivals.clear();
        for rank in 0..ranks {
            self.arrivals.push(self.group.words.arrival(rank, self.number)?);
        }
        let first = self.arrival(0);
        let reads_all = operation.reads_all();
        let odd = |arrival: &Arrival| arrival.failed || differs(arrival, &first, reads_all);
        if self.arrivals.iter().any(odd) {
            let refusal = self.disagreement(&first, reads_all)?;
            return Err(self.refuse(refusal)?);
        }
        let template = match operation.root().filter(|_| !reads_all) {
            _ if operation == Collective::Barrier => None,
            Some(root) if root != self.rank => Some(self.template_of(root)?),
            _ => proposal.template.clone(),
        };
        if let Some(template) = &template
            && let Some(refusal) = refusal(operation, &template.heads, ranks)
        {
            return Err(self.refuse(refusal)?);
        }
        Ok(Agreed { template })
    }

    /// Completes an operation without a result.
    #[cold]
    fn refuse(&mut self, refusal: CommError) -> Result<CommError, CommError> {
        self.done()?;
        self.finish()?;
        Ok(refusal)
    }

    /// Returns the reason why the contributions do not match; the same on every rank.
    #[cold]
    fn disagreement(&mut self, first: &Arrival, reads_all: bool) -> Result<CommError, CommError> {
        if let Some(rank) = self.arrivals.iter().position(|arrival| arrival.failed) {
            let report = self.head_of(rank)?;
            return Ok(CommError::PeerFailed { rank, report });
        }
        let differs = |arrival: &Arrival| differs(arrival, first, reads_all);
        let rank = self.arrivals.iter().position(differs).unwrap_or_default();
        let (first, other) = (self.describe(0)?, self.describe(rank)?);
        Ok(CommError::Mismatch { first, rank, other })
    }

    /// Returns a description of a rank's contribution.
    fn describe(&mut self, rank: usize) -> Result<String, CommError> {
        let arrival = self.arrival(rank);
        let name = Collective::name_of(arrival.what);
        if arrival.block == Arrival::NO_BLOCK {
            return Ok(name);
        }
        let heads = self.template_of(rank)?.heads.describe();
        Ok(format!("{name} of {heads}"))
    }

    /// Returns block `index` of a rank that has arrived with it, or has sent it.
    pub(crate) fn map(&mut self, rank: usize, index: u64) -> Result<&Region, CommError> {
        self.mapped.block(&self.group, rank, index)
    }

    /// Returns the first `len` bytes of a block that a rank has contributed or sent.
    #[allow(unsafe_code)] // reads the start of a block
    pub(super) fn head(&mut self, rank: usize, block: u64, len: u64) -> Result<Vec<u8>, CommError> {
        let region = self.map(rank, block)?;
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        // SAFETY: the owner of the block has arrived with it, or has sent it, and does not write these bytes before all
        // ranks have finished, or before the receiver has received the message (`COLL-1`, `COLL-2`).
        Ok(unsafe { region.bytes(0, len)? }.to_vec())
    }

    fn head_of(&mut self, rank: usize) -> Result<Vec<u8>, CommError> {
        let arrival = self.arrival(rank);
        self.head(rank, arrival.block, arrival.head_len)
    }

    /// Returns the types and shapes of another rank's contribution.
    fn template_of(&mut self, rank: usize) -> Result<Arc<Template>, CommError> {
        let encoded = self.head_of(rank)?;
        self.template_with(encoded)
    }
}

/// Whether a rank contributes something else than rank 0: another operation or, if every contribution is read, other
/// tensors.
fn differs(arrival: &Arrival, first: &Arrival, reads_all: bool) -> bool {
    arrival.what != first.what || (reads_all && arrival.signature != first.signature)
}

/// Returns the error if the operation is not defined for the contributions; the same error on every rank.
fn refusal(operation: Collective, heads: &Heads, ranks: usize) -> Option<CommError> {
    let heads = &heads.0;
    if let Some(op) = operation.reduce_op()
        && let Some(head) = heads.iter().find(|head| !op.is_defined_for(head.dtype))
    {
        return Some(CommError::NoSuchReduction {
            op,
            dtype: head.dtype,
        });
    }
    let is_indivisible = |head: &&Head| {
        let first = head.shape.first();
        first.is_none_or(|first| !first.is_multiple_of(ranks))
    };
    if operation.cuts()
        && let Some(head) = heads.iter().find(is_indivisible)
    {
        return Some(CommError::Indivisible {
            operation,
            shape: head.shape.to_vec(),
            ranks,
        });
    }
    let scalar = heads.iter().any(|head| head.shape.is_empty());
    (operation.gatherer().is_some() && scalar).then_some(CommError::Scalar { operation })
}

/// The operation in which this rank wants to take part, with its contribution. Its blocks are in use until it is dropped.
#[derive(Debug)]
pub(crate) struct Proposal {
    pub(crate) operation: Collective,
    pub(crate) medium: Medium,
    /// The types and shapes of the contribution.
    pub(crate) template: Option<Arc<Template>>,
    /// The block that begins with the encoded types and shapes, or with the report of a failure.
    pub(crate) block: Option<LeasedBlock>,
    /// The block for results, or the ring of private vectors.
    pub(crate) results: Option<LeasedBlock>,
    /// The number of bytes of the report if the rank contributes a failure.
    pub(crate) failure: Option<usize>,
    /// The number of the first ranks that are known to have arrived.
    pub(crate) arrived: usize,
}

/// The operation on which all ranks agree.
pub(crate) struct Agreed {
    /// The types and shapes of every rank's contribution, or of the root's alone; `None` for a barrier.
    pub(crate) template: Option<Arc<Template>>,
}

impl Proposal {
    /// Proposes an operation to which this rank contributes nothing.
    pub(crate) fn new(operation: Collective) -> Self {
        Proposal {
            operation,
            medium: Medium::Blocks,
            template: None,
            block: None,
            results: None,
            failure: None,
            arrived: 0,
        }
    }

    /// Returns the leased blocks.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &LeasedBlock> {
        self.block.iter().chain(&self.results)
    }

    /// Returns the proposal as other ranks see it.
    pub(super) fn arrival(&self) -> Arrival {
        let index = |block: &Option<LeasedBlock>| {
            block
                .as_ref()
                .map_or(Arrival::NO_BLOCK, |block| block.index as u64)
        };
        let template = self.template.as_deref();
        let heads = template.map_or(0, |template| template.encoded.len());
        Arrival {
            what: self.operation.code() | self.medium.bit(),
            signature: template.map_or(0, |template| template.signature),
            block: index(&self.block),
            results: index(&self.results),
            head_len: self.failure.unwrap_or(heads) as u64,
            failed: self.failure.is_some(),
        }
    }
}
