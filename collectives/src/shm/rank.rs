//! One rank of a group: launches operations and completes them, one at a time, without ever blocking unless the caller
//! waits.

use std::time::{Duration, Instant};

use selvedge_channels::{DType, Element, Tensor};

use super::share::{BlockOf, ONE_SHOT_BYTES, Private, Product, Sources};
use super::staging::Vector;
use crate::communicator::{AbortHandle, Capabilities, Communicator, Contribution, PlanId, Plans};
use crate::error::CommError;
use crate::operation::{Collective, ReduceOp};
use crate::parts::Part;
use crate::rendezvous::{Group, LeasedBlock, Loan, Participant, Proposal};

/// The number of bytes of a private vector that are reduced at once: few enough to stay in the caches.
const PIECE_BYTES: usize = 1 << 20;

/// A rank of a [`Group`]. A rank that is dropped while an operation is in flight aborts the group. A rank that is dropped
/// otherwise leaves when all other ranks have read its last contribution; it waits for that as long as the group's
/// time-out allows.
pub struct Rank {
    pub(crate) participant: Participant,
    plans: Plans,
    pub(super) state: RankState,
    /// The blocks of the operation in flight, by rank.
    pub(super) blocks: Vec<Option<BlockOf>>,
    pub(super) sources: Sources,
    /// The ring where chunks of private vectors are staged, and the number of chunks that went through it.
    pub(super) ring: Option<LeasedBlock>,
    pub(super) passed: u64,
}

/// The progress of an operation.
#[derive(Debug)]
pub(super) enum RankState {
    Idle,
    /// The ranks agree on the operation.
    Agreeing {
        proposal: Proposal,
        own: Own,
    },
    /// The rank reduces private vectors with the other rank, chunk by chunk.
    Passing {
        proposal: Proposal,
        vector: Vector,
    },
    /// The rank waits for the shares of others, of which the first `done` are done.
    Sharing {
        _proposal: Proposal,
        product: Product,
        done: usize,
    },
}

/// The memory of this rank's contribution.
#[derive(Debug)]
pub(super) enum Own {
    /// The block with which the rank has arrived.
    Block,
    /// Private memory. The block contains only the data that other ranks reduce.
    Private(Private),
    /// A private vector that passes through rings.
    Vector(Vector),
}

impl std::fmt::Debug for Rank {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let operation = self.participant.operation();
        let operation = operation.map_or_else(|| "idle".to_owned(), |it| it.to_string());
        write!(f, "rank {} of {}, {operation}", self.rank(), self.world_size())
    }
}

impl AsMut<Participant> for Rank {
    fn as_mut(&mut self) -> &mut Participant {
        &mut self.participant
    }
}

impl Group {
    /// Takes a rank for this process, permanently: a rank that has left does not come back.
    ///
    /// # Errors
    /// [`CommError::NoSuchRank`], [`CommError::Taken`].
    pub fn rank(&self, rank: usize) -> Result<Rank, CommError> {
        Ok(Rank::new(self.participant(rank)?))
    }
}

impl Rank {
    pub(crate) fn new(participant: Participant) -> Self {
        let ranks = participant.group.ranks();
        Rank {
            participant,
            plans: Plans::default(),
            state: RankState::Idle,
            blocks: Vec::with_capacity(ranks),
            sources: Sources::default(),
            ring: None,
            passed: 0,
        }
    }

    /// Returns the participant. No operation may be in flight.
    #[cfg(feature = "cuda")]
    pub(crate) fn into_participant(self) -> Participant {
        self.participant
    }

    /// Lends memory of the group in which tensors of these types and shapes are built, to be contributed without a
    /// copy.
    ///
    /// # Errors
    /// [`CommError::Held`], [`CommError::Segment`].
    pub fn loan(&mut self, parts: &[(DType, &[usize])]) -> Result<Loan, CommError> {
        self.participant.loan(parts.iter().copied())
    }

    /// Launches an operation as [`launch`](Communicator::launch) does, with the contribution built in a loan of this
    /// rank.
    ///
    /// # Errors
    /// The errors of [`launch`](Communicator::launch).
    pub fn launch_loan(&mut self, plan: PlanId, loan: Loan) -> Result<(), CommError> {
        let operation = self.may_launch(plan)?;
        if !loan.is_of(&self.participant.group, self.rank()) {
            return Err(CommError::Corrupt {
                what: "a loan of another rank",
            });
        }
        self.bring(operation, loan, Own::Block)
    }

    /// Returns the progress of the rank, for the models.
    #[cfg(test)]
    pub(super) fn progress(&self) -> u64 {
        let (phase, count) = match &self.state {
            RankState::Idle => (1, 0),
            RankState::Agreeing { proposal, .. } => (2, proposal.arrived as u64),
            RankState::Sharing { done, .. } => (3, *done as u64),
            RankState::Passing { vector, .. } => (4, vector.progress()),
        };
        self.participant.number << 32 | phase << 24 | count
    }

    /// Returns the number of bytes of this rank's blocks of memory.
    pub fn memory_bytes(&self) -> usize {
        self.participant.blocks.len_bytes()
    }

    pub(super) fn may_launch(&self, plan: PlanId) -> Result<Collective, CommError> {
        self.participant.may_arrive()?;
        match self.participant.operation() {
            None => self.plans.operation(plan),
            Some(operation) => Err(CommError::Busy { operation }),
        }
    }

    /// Arrives at an operation with the contribution in a loan.
    pub(super) fn bring(&mut self, operation: Collective, loan: Loan, own: Own) -> Result<(), CommError> {
        let Loan { block, template, .. } = loan;
        block.write(0, &template.encoded)?;
        let mut results = None;
        // If the gathered size overflows, all ranks refuse the operation later.
        let ranks = self.participant.group.ranks();
        if operation.gatherer() == Some(self.rank())
            && let Some((_, len)) = template.heads.gathered(ranks).and_then(|heads| heads.spans(0))
        {
            results = Some(self.participant.take(len)?);
        }
        let proposal = Proposal {
            template: Some(template),
            block: Some(block),
            results,
            ..Proposal::new(operation)
        };
        self.arrive(proposal, own)
    }

    pub(super) fn arrive(&mut self, proposal: Proposal, own: Own) -> Result<(), CommError> {
        self.participant.arrive(&proposal)?;
        self.state = RankState::Agreeing { proposal, own };
        Ok(())
    }
}

impl Communicator for Rank {
    fn rank(&self) -> usize {
        self.participant.rank
    }

    fn world_size(&self) -> usize {
        self.participant.group.ranks()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::everything("shm")
    }

    fn plan(&mut self, operation: Collective) -> Result<PlanId, CommError> {
        self.plans.plan(operation, self.participant.group.ranks())
    }

    fn launch(&mut self, plan: PlanId, contribution: Contribution<'_>) -> Result<(), CommError> {
        let operation = self.may_launch(plan)?;
        let parts = match contribution {
            Contribution::Failure(report) => {
                let proposal = self.participant.failure(operation, report)?;
                return self.arrive(proposal, Own::Block);
            }
            Contribution::Parts(_) if !operation.reads(self.rank()) => {
                return self.arrive(Proposal::new(operation), Own::Block);
            }
            Contribution::Parts(parts) => parts,
        };
        parts.iter().try_for_each(Part::check)?;
        let heads = parts.iter().map(|part| (part.dtype, part.shape));
        let mut loan = self.participant.loan(heads)?;
        for (index, part) in parts.iter().enumerate() {
            loan.fill(index, 0, part.bytes)?;
        }
        self.bring(operation, loan, Own::Block)
    }

    fn poll(&mut self) -> Result<Option<Vec<Tensor>>, CommError> {
        let outcome = self.advance();
        match outcome {
            Ok(None) => self.participant.watch(),
            Ok(Some(_)) => {}
            Err(error) => {
                self.state = RankState::Idle;
                return Err(self.participant.fail(error));
            }
        }
        outcome
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<Vec<Tensor>, CommError> {
        let Some(operation) = self.participant.operation() else {
            return Err(CommError::Idle);
        };
        Participant::until(self, timeout, Rank::poll)?.map_err(|waited| CommError::Timeout {
            operation,
            waited,
            missing: self.participant.describe_missing(|rank| self.has_come(rank)),
        })
    }

    fn send(&mut self, to: usize, tensors: &[Tensor], timeout: Option<Duration>) -> Result<(), CommError> {
        self.participant.send(to, tensors, timeout)
    }

    fn recv(&mut self, from: usize, timeout: Option<Duration>) -> Result<Vec<Tensor>, CommError> {
        self.participant.recv(from, timeout)
    }

    fn abort_handle(&self) -> AbortHandle {
        self.participant.abort_handle()
    }

    fn close(mut self: Box<Self>, timeout: Duration) -> Result<(), CommError> {
        let started = Instant::now();
        let outcome = match self.participant.operation() {
            None => Ok(()),
            Some(_) => self.wait(Some(timeout)).map(drop),
        };
        let left = timeout.saturating_sub(started.elapsed());
        self.participant.linger(Some(left));
        outcome
    }

    /// Combines every rank's `values`, in place. Two ranks pass private vectors through rings that stay in the caches.
    /// With more ranks, a large vector goes in pieces, so that it takes little memory of the group and stays in the
    /// caches. Only the data that other ranks reduce is copied to them, and only the data that they have reduced is
    /// copied back.
    fn allreduce_slice<E: Element>(&mut self, op: ReduceOp, values: &mut [E]) -> Result<(), CommError> {
        let plan = self.plan(Collective::AllReduce(op))?;
        if self.world_size() == 2 && size_of_val(values) > ONE_SHOT_BYTES {
            return self.allreduce_pair(plan, op, values);
        }
        let whole = values.len();
        let piece = (PIECE_BYTES / size_of::<E>().max(1)).max(1);
        if whole <= piece {
            return self.allreduce_piece(plan, values, whole);
        }
        let mut pieces = values.chunks_mut(piece);
        pieces.try_for_each(|values| self.allreduce_piece(plan, values, whole))
    }
}
