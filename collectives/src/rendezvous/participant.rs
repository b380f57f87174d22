//! One rank in the rendezvous of its group: its memory, its operation in flight, and its end.

use std::sync::Arc;

use selvedge_channels::memory::deaths::HolderWatches;
use selvedge_channels::memory::made_in::MadeIn;
use selvedge_channels::{DType, Doorbell, SpinBudget, Tensor, fault_point};

use super::agree::Proposal;
use super::block::{Blocks, LeasedBlock};
use super::loan::Loan;
use super::mapped::MappedBlocks;
use super::state::GroupState;
use super::view::BlockView;
use super::words::{Arrival, GroupEnd};
use crate::communicator::AbortHandle;
use crate::error::CommError;
use crate::operation::Collective;
use crate::parts::{Heads, Template};

/// A rank that takes part in the rendezvous of its group, in one operation at a time. A participant that is dropped while
/// an operation is in flight aborts the group. A participant that is dropped otherwise leaves when all other ranks have
/// read its last contribution; it waits for that as long as the group's time limit allows, unless it has lingered already.
pub(crate) struct Participant {
    pub(crate) group: Arc<GroupState>,
    pub(crate) rank: usize,
    pub(super) bell: Doorbell,
    /// The number of operations at which this rank has arrived.
    pub(crate) number: u64,
    /// The operation at which this rank has arrived, until this rank has finished it.
    pub(super) in_flight: Option<Collective>,
    pub(crate) blocks: Blocks,
    pub(crate) mapped: MappedBlocks,
    /// The processes of all ranks.
    pub(super) watches: HolderWatches<usize>,
    pub(super) budget: Arc<SpinBudget>,
    /// The last types and shapes of this rank, and those of a root: usually the next ones are the same.
    own: Option<Arc<Template>>,
    root: Option<Arc<Template>>,
    /// The arrivals at the operation in flight, by rank.
    pub(super) arrivals: Vec<Arrival>,
    /// The numbers of messages sent to each rank, and received from each rank.
    pub(super) sent: Vec<u64>,
    pub(super) received: Vec<u64>,
    /// The rank whose leaving has ended an operation of this rank. No operation can be complete after that.
    left: Option<usize>,
    /// True once this rank has waited for the ranks that need it before it leaves.
    pub(super) has_lingered: bool,
    made_in: MadeIn,
}

impl Participant {
    pub(super) fn new(group: Arc<GroupState>, rank: usize) -> Result<Self, CommError> {
        fault_point::at("rank: after the claim");
        let ranks = group.ranks();
        let bell = group.bells.get(rank).cloned();
        Ok(Participant {
            rank,
            bell: bell.ok_or(CommError::NoSuchRank { rank, ranks })?,
            number: 0,
            in_flight: None,
            blocks: Blocks::new(rank),
            mapped: MappedBlocks::default(),
            watches: HolderWatches::new(0..ranks),
            budget: Arc::new(SpinBudget::new(group.waiting)),
            own: None,
            root: None,
            arrivals: Vec::with_capacity(ranks),
            sent: vec![0; ranks],
            received: vec![0; ranks],
            left: None,
            has_lingered: false,
            made_in: MadeIn::here(),
            group,
        })
    }

    /// Returns the operation in flight.
    pub(crate) fn operation(&self) -> Option<Collective> {
        self.in_flight
    }

    /// Returns the bell that wakes the thread that drives this rank.
    #[cfg(feature = "cuda")]
    pub(crate) fn bell(&self) -> &Doorbell {
        &self.bell
    }

    /// Returns an error if this rank may not arrive at operations any more: the group has ended, or an operation ended
    /// because a rank had left. Of the latter no other rank need know yet, and those that have not read this rank's
    /// arrivals so far would find later ones in their place (`COLL-5`).
    pub(crate) fn may_arrive(&self) -> Result<(), CommError> {
        self.group.ended()?;
        self.left.map_or(Ok(()), |rank| Err(CommError::PeerLeft { rank }))
    }

    pub(crate) fn abort_handle(&self) -> AbortHandle {
        let (group, rank) = (Arc::clone(&self.group), self.rank);
        AbortHandle::new(move || group.end(GroupEnd::Aborted { rank }))
    }

    /// Ends the group, because this rank cannot do its share.
    pub(crate) fn give_up(&self) {
        self.group.end(GroupEnd::Aborted { rank: self.rank });
    }

    /// Handles an error of the operation in flight, which is over with it. Returns the cause of the error.
    #[cold]
    pub(crate) fn fail(&mut self, error: CommError) -> CommError {
        self.in_flight = None;
        let cause = match error {
            // The memory went with its owner, whose end is not reported yet; or this rank cannot do its share, and no
            // other rank can go on without it.
            CommError::Segment(_) | CommError::Corrupt { .. } => self.find_gone().unwrap_or_else(|| {
                self.give_up();
                error
            }),
            error => error,
        };
        if let CommError::PeerLeft { rank } = cause {
            self.left = Some(rank);
        }
        cause
    }

    pub(crate) fn ring_others(&self) {
        Doorbell::ring_all_but(&self.group.bells, self.rank);
    }

    /// Returns the template of these types and shapes.
    pub(crate) fn template<'a>(
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

    /// Returns the template that a rank has encoded at the start of its block.
    pub(super) fn template_with(&mut self, encoded: Vec<u8>) -> Result<Arc<Template>, CommError> {
        let known = self.root.iter().chain(&self.own);
        if let Some(known) = known.into_iter().find(|known| known.encoded == encoded) {
            return Ok(Arc::clone(known));
        }
        let template = Template::decode(encoded).ok_or(CommError::Corrupt {
            what: "heads that are none",
        })?;
        let template = Arc::new(template);
        self.root = Some(Arc::clone(&template));
        Ok(template)
    }

    /// Takes a block of at least `len` bytes.
    pub(crate) fn take(&mut self, len: usize) -> Result<LeasedBlock, CommError> {
        self.blocks.take(&self.group, len)
    }

    /// Takes a block for tensors of these types and shapes.
    pub(crate) fn loan<'a>(
        &mut self,
        parts: impl ExactSizeIterator<Item = (DType, &'a [usize])> + Clone,
    ) -> Result<Loan, CommError> {
        let template = self.template(parts)?;
        Loan::new(&self.group, self.rank, &mut self.blocks, template)
    }

    /// Takes a block, and writes only the types and shapes of a contribution into it.
    pub(crate) fn heads(&mut self, template: &Template) -> Result<LeasedBlock, CommError> {
        let block = self.take(template.encoded.len())?;
        block.write(0, &template.encoded)?;
        Ok(block)
    }

    /// Proposes an operation with a failure as the contribution.
    pub(crate) fn failure(&mut self, operation: Collective, report: &[u8]) -> Result<Proposal, CommError> {
        let block = self.take(report.len())?;
        block.write(0, report)?;
        Ok(Proposal {
            block: Some(block),
            failure: Some(report.len()),
            ..Proposal::new(operation)
        })
    }

    /// Returns tensors in a block of another rank, or of this one.
    pub(crate) fn view(&mut self, view: &BlockView) -> Result<Vec<Tensor>, CommError> {
        view.tensors(&self.group, self.rank, &mut self.mapped)
    }
}

impl Drop for Participant {
    fn drop(&mut self) {
        if !self.made_in.is_here() {
            return; // A forked child drops the copy of its parent's rank.
        }
        if self.in_flight.is_some() {
            self.group.words.set_end(GroupEnd::Aborted { rank: self.rank });
        } else if self.group.watches && !self.has_lingered && !std::thread::panicking() {
            self.linger(self.group.timeout);
        }
        self.group.words.leave(self.rank);
        self.group.ring_all();
    }
}
