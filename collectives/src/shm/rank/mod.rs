//! One rank of a group: launches operations and completes them, one at a time, without ever blocking unless the caller
//! waits.
//!
//! - `advance`: one operation, from the contribution to the result.
//! - `agree`: the operation on which the ranks agree, or the reason why they do not.
//! - `private`: reductions of memory that the group does not know, in pieces.
//! - `pair`: reductions of such memory between two ranks, chunk by chunk.
//! - `elsewhere`: operations on memory other than the host's, on which the ranks only agree here.
//! - `message`: messages from one rank to another.
//! - `patience`: waits for other ranks.

mod advance;
mod agree;
#[cfg(feature = "cuda")]
mod elsewhere;
mod message;
mod pair;
mod patience;
mod private;

use std::sync::Arc;
use std::time::Duration;

use selvedge_channels::fault_point;
use selvedge_channels::{DType, Element, SpinBudget, Tensor};

use self::advance::write_head;
use super::share::{MappedBlock, ONE_SHOT_BYTES, Private, Product, Sources};
use super::staging::Vector;
use crate::communicator::{AbortHandle, Capabilities, Communicator, Contribution, PlanId};
use crate::error::CommError;
use crate::operation::{Collective, ReduceOp};
use crate::parts::{Heads, Part, Template};
use crate::rendezvous::{Arrival, Blocks, End, Group, Loan, Mapped, Shared, Taken, Watches};

const NO_BLOCK: u64 = u64::MAX;

/// The number of bytes of a private vector that are reduced at once: few enough to stay in the caches.
const PIECE_BYTES: usize = 1 << 20;

/// A rank of a [`Group`]. A rank that is dropped while an operation is in flight aborts the group. A rank
/// that is dropped otherwise leaves when all other ranks have read its last contribution; it waits for that as long as
/// the group's time-out allows.
pub struct Rank {
    shared: Arc<Shared>,
    rank: usize,
    /// The number of operations launched.
    number: u64,
    plans: Vec<Collective>,
    blocks: Blocks,
    /// The ring where chunks of private vectors are staged, and the number of chunks that went through it.
    ring: Option<Taken>,
    passed: u64,
    mapped: Mapped,
    watches: Watches,
    budget: Arc<SpinBudget>,
    state: RankState,
    /// The last types and shapes of this rank, and those of a root: usually the next ones are the same.
    own: Option<Arc<Template>>,
    root: Option<Arc<Template>>,
    /// The arrivals and the blocks of the operation in flight, by rank.
    arrivals: Vec<Arrival>,
    brought: Vec<Option<MappedBlock>>,
    sources: Sources,
    /// The types and shapes of the last agreement on tensors that lie elsewhere.
    #[cfg(feature = "cuda")]
    agreed: Option<Arc<Template>>,
    /// The numbers of messages sent to each rank, and received from each rank.
    sent: Vec<u64>,
    received: Vec<u64>,
}

#[derive(Debug)]
enum RankState {
    Idle,
    /// The rank waits for the other ranks, of which the first `arrived` have arrived.
    Arriving {
        under_way: UnderWay,
        arrived: usize,
    },
    /// The rank joins private vectors with the other rank, chunk by chunk.
    Joining {
        under_way: UnderWay,
    },
    /// The rank waits for the shares of others, of which the first `done` are done.
    Sharing {
        under_way: UnderWay,
        product: Product,
        done: usize,
    },
}

/// The contribution of this rank. Its blocks are in use until it is dropped.
#[derive(Debug)]
struct UnderWay {
    operation: Collective,
    template: Option<Arc<Template>>,
    private: Option<Private>,
    /// The vector that is joined chunk by chunk.
    vector: Option<Vector>,
    brought: Option<Taken>,
    results: Option<Taken>,
    /// True if the tensors lie elsewhere: the ranks agree here only on types and shapes.
    elsewhere: bool,
}

impl RankState {
    fn under_way(&self) -> Option<&UnderWay> {
        match self {
            RankState::Idle => None,
            RankState::Arriving { under_way, .. }
            | RankState::Joining { under_way }
            | RankState::Sharing { under_way, .. } => Some(under_way),
        }
    }
}

impl std::fmt::Debug for Rank {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state.under_way();
        let state = state.map_or_else(|| "idle".to_owned(), |it| it.operation.to_string());
        write!(f, "rank {} of {}, {state}", self.rank, self.shared.ranks())
    }
}

impl Group {
    /// Takes a rank for this process, permanently: a rank that has left does not come back.
    ///
    /// # Errors
    /// [`CommError::NoSuchRank`], [`CommError::Taken`].
    pub fn rank(&self, rank: usize) -> Result<Rank, CommError> {
        Rank::new(self.take(rank)?, rank)
    }
}

impl Rank {
    fn new(shared: Arc<Shared>, rank: usize) -> Result<Self, CommError> {
        fault_point::at("rank: after the claim");
        Ok(Rank {
            rank,
            number: 0,
            plans: Vec::new(),
            blocks: Blocks::new(rank),
            ring: None,
            passed: 0,
            mapped: Mapped::default(),
            watches: Watches::default(),
            budget: Arc::new(SpinBudget::new(shared.waiting)),
            state: RankState::Idle,
            own: None,
            root: None,
            arrivals: Vec::with_capacity(shared.ranks()),
            brought: Vec::with_capacity(shared.ranks()),
            sources: Sources::default(),
            #[cfg(feature = "cuda")]
            agreed: None,
            sent: vec![0; shared.ranks()],
            received: vec![0; shared.ranks()],
            shared,
        })
    }

    /// Lends memory of the group in which tensors of these types and shapes are built, to be contributed without a
    /// copy.
    ///
    /// # Errors
    /// [`CommError::Held`], [`CommError::Segment`].
    pub fn loan(&mut self, parts: &[(DType, &[usize])]) -> Result<Loan, CommError> {
        let template = self.template(parts.iter().copied())?;
        Loan::new(Arc::clone(&self.shared), &mut self.blocks, template)
    }

    /// Launches an operation as [`launch`](Communicator::launch) does, with the contribution built in a loan of this
    /// rank.
    ///
    /// # Errors
    /// The errors of [`launch`](Communicator::launch).
    pub fn launch_loan(&mut self, plan: PlanId, loan: Loan) -> Result<(), CommError> {
        let operation = self.may_launch(plan)?;
        if !Arc::ptr_eq(&loan.shared, &self.shared) || loan.rank != self.rank {
            return Err(CommError::Corrupt {
                what: "a loan of another rank",
            });
        }
        self.bring(operation, loan, None)
    }

    /// Returns the progress of the rank, for the models.
    #[cfg(test)]
    pub(super) fn progress(&self) -> u64 {
        let (phase, count) = match &self.state {
            RankState::Idle => (1, 0),
            RankState::Arriving { arrived, .. } => (2, *arrived as u64),
            RankState::Sharing { done, .. } => (3, *done as u64),
            RankState::Joining { under_way } => (4, under_way.vector.as_ref().map_or(0, Vector::progress)),
        };
        self.number << 32 | phase << 24 | count
    }

    /// Returns the number of bytes of this rank's blocks of memory.
    pub fn memory_bytes(&self) -> usize {
        self.blocks.len_bytes()
    }

    fn template<'a>(
        &mut self,
        parts: impl ExactSizeIterator<Item = (DType, &'a [usize])> + Clone,
    ) -> Result<Arc<Template>, CommError> {
        if let Some(known) = self.own.as_ref().filter(|known| known.is_of(parts.clone())) {
            return Ok(Arc::clone(known));
        }
        let made = Arc::new(Template::of(Heads::of(parts))?);
        self.own = Some(Arc::clone(&made));
        Ok(made)
    }

    fn may_launch(&self, plan: PlanId) -> Result<Collective, CommError> {
        self.ended()?;
        match self.state.under_way() {
            None => self.plans.get(plan.0).copied().ok_or(CommError::NoSuchPlan),
            Some(under_way) => Err(CommError::Busy {
                operation: under_way.operation,
            }),
        }
    }

    /// Returns an error with the cause if the group has ended.
    fn ended(&self) -> Result<(), CommError> {
        match self.shared.words.end()? {
            None => Ok(()),
            Some(End::Died { rank, pid }) => Err(CommError::PeerLost { rank, pid }),
            Some(End::Aborted { rank }) => Err(CommError::Aborted { rank }),
        }
    }
}

impl Communicator for Rank {
    fn rank(&self) -> usize {
        self.rank
    }

    fn world_size(&self) -> usize {
        self.shared.ranks()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::everything("shm")
    }

    fn plan(&mut self, operation: Collective) -> Result<PlanId, CommError> {
        if let Some(root) = operation.root() {
            self.shared.has(root)?;
        }
        let known = self.plans.iter().position(|plan| *plan == operation);
        Ok(PlanId(known.unwrap_or_else(|| {
            self.plans.push(operation);
            self.plans.len() - 1
        })))
    }

    fn launch(&mut self, plan: PlanId, contribution: Contribution<'_>) -> Result<(), CommError> {
        let operation = self.may_launch(plan)?;
        let arrival = Arrival {
            what: operation.code(),
            ..Arrival::default()
        };
        let mut under_way = UnderWay {
            operation,
            template: None,
            private: None,
            vector: None,
            brought: None,
            results: None,
            elsewhere: false,
        };
        let parts = match contribution {
            Contribution::Failure(report) => {
                let taken = self.blocks.take(&self.shared, report.len())?;
                write_head(&taken.region, report)?;
                under_way.brought = Some(taken);
                let arrival = Arrival {
                    head_len: report.len() as u64,
                    failed: true,
                    ..arrival
                };
                return self.arrive(under_way, arrival);
            }
            Contribution::Parts(parts) => parts,
        };
        if !operation.reads_all() && operation.root() != Some(self.rank) {
            return self.arrive(under_way, arrival);
        }
        parts.iter().try_for_each(Part::check)?;
        let mut loan = {
            let template = self.template(parts.iter().map(|part| (part.dtype, part.shape)))?;
            Loan::new(Arc::clone(&self.shared), &mut self.blocks, template)?
        };
        for (index, part) in parts.iter().enumerate() {
            loan.fill(index, 0, part.bytes)?;
        }
        self.bring(operation, loan, None)
    }

    fn poll(&mut self) -> Result<Option<Vec<Tensor>>, CommError> {
        let mut outcome = self.advance();
        if matches!(outcome, Ok(None)) {
            self.watches.look(&self.shared);
        }
        if matches!(outcome, Err(CommError::Segment(_) | CommError::Corrupt { .. })) {
            // The memory went with its owner, whose end is not reported yet; or this rank cannot do its share, and no
            // other rank can go on without it.
            outcome = Err(self.find_gone().unwrap_or_else(|| {
                self.shared.end(End::Aborted { rank: self.rank });
                outcome.err().unwrap_or(CommError::Idle)
            }));
        }
        if matches!(
            outcome,
            Err(CommError::PeerLost { .. } | CommError::PeerLeft { .. } | CommError::Aborted { .. })
        ) {
            self.state = RankState::Idle;
        }
        outcome
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<Vec<Tensor>, CommError> {
        let Some(operation) = self.state.under_way().map(|it| it.operation) else {
            return Err(CommError::Idle);
        };
        self.until(timeout, Rank::poll)?
            .map_err(|waited| CommError::Timeout {
                operation,
                waited,
                missing: self.describe_missing(),
            })
    }

    fn send(&mut self, to: usize, tensors: &[Tensor], timeout: Option<Duration>) -> Result<(), CommError> {
        self.send_message(to, tensors, timeout)
    }

    fn recv(&mut self, from: usize, timeout: Option<Duration>) -> Result<Vec<Tensor>, CommError> {
        self.recv_message(from, timeout)
    }

    fn abort_handle(&self) -> AbortHandle {
        let (shared, rank) = (Arc::clone(&self.shared), self.rank);
        AbortHandle::new(move || shared.end(End::Aborted { rank }))
    }

    fn close(mut self: Box<Self>, timeout: Duration) -> Result<(), CommError> {
        let outcome = match self.state {
            RankState::Idle => Ok(()),
            _ => self.wait(Some(timeout)).map(|_| ()),
        };
        self.linger(Some(timeout));
        outcome
    }

    /// Combines every rank's `values`, in place. Two ranks pass private vectors through rings that stay in the caches.
    /// With more ranks, a large vector goes in pieces, so that it takes little memory of the group and stays in the
    /// caches. Only the data that other ranks reduce is copied to them, and only the data that they have reduced is
    /// copied back.
    fn allreduce_slice<E: Element>(&mut self, op: ReduceOp, values: &mut [E]) -> Result<(), CommError> {
        let plan = self.plan(Collective::AllReduce(op))?;
        if self.shared.ranks() == 2 && size_of_val(values) > ONE_SHOT_BYTES {
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

impl Drop for Rank {
    fn drop(&mut self) {
        if !matches!(self.state, RankState::Idle) {
            self.shared.words.set_end(End::Aborted { rank: self.rank });
        } else if self.shared.watches && !std::thread::panicking() {
            self.linger(self.shared.timeout);
        }
        self.shared.words.leave(self.rank);
        self.shared.ring_all();
    }
}
