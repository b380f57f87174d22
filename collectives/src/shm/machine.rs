//! One rank of a group: launches operations and brings them to their end, one at a time, without ever blocking unless asked.

use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge_channels::fault_point;
use selvedge_channels::{DType, Doorbell, Element, Region, SegmentError, Tensor, Waiting, bytes_of};

use super::block::{Blocks, Loan, Mapped, Taken};
use super::group::Shared;
use super::layout::{Arrival, End};
use super::output::tensors;
use super::share::{Brought, Meeting, Private, Product, Sources, gathered, is_one_shot, slice};
use super::watch::Watches;
use crate::communicator::{AbortHandle, Capabilities, Communicator, Contribution, PlanId};
use crate::error::CommError;
use crate::operation::{Collective, ReduceOp};
use crate::parts::{Heads, Part, Template};

const NO_BLOCK: u64 = u64::MAX;

/// Bytes of a private vector that are joined at once: few enough to stay in the caches.
const PIECE_BYTES: usize = 1 << 20;

/// A rank of a [`Group`](super::Group). Dropped while an operation is under way, it aborts the group. Dropped otherwise, it
/// leaves when everybody has read what it brought to the last operation, for which it waits as long as the group's time-out
/// allows.
pub struct Rank {
    shared: Arc<Shared>,
    rank: usize,
    /// Operations launched.
    number: u64,
    plans: Vec<Collective>,
    blocks: Blocks,
    mapped: Mapped,
    watches: Watches,
    state: State,
    /// What this rank, and a root, brought last: mostly what they bring next.
    own: Option<Arc<Template>>,
    root: Option<Arc<Template>>,
    /// By rank, of the operation under way.
    arrivals: Vec<Arrival>,
    brought: Vec<Option<Brought>>,
    sources: Sources,
    /// Messages sent to each rank, and received from each.
    sent: Vec<u64>,
    received: Vec<u64>,
}

#[derive(Debug)]
enum State {
    Idle,
    /// Waiting for the others, of whom so many have come.
    Arriving {
        under_way: UnderWay,
        arrived: usize,
    },
    /// Waiting for the shares of others, of which so many are done.
    Sharing {
        under_way: UnderWay,
        product: Product,
        done: usize,
    },
}

/// What this rank has brought; its blocks are in use until it is dropped.
#[derive(Debug)]
struct UnderWay {
    operation: Collective,
    template: Option<Arc<Template>>,
    private: Option<Private>,
    brought: Option<Taken>,
    results: Option<Taken>,
}

/// What all ranks will do.
struct Agreed {
    template: Option<Arc<Template>>,
    results: Option<Brought>,
}

impl State {
    fn under_way(&self) -> Option<&UnderWay> {
        match self {
            State::Idle => None,
            State::Arriving { under_way, .. } | State::Sharing { under_way, .. } => Some(under_way),
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

impl Rank {
    pub(super) fn new(shared: Arc<Shared>, rank: usize) -> Result<Self, CommError> {
        fault_point::at("rank: after the claim");
        Ok(Rank {
            rank,
            number: 0,
            plans: Vec::new(),
            blocks: Blocks::new(rank),
            mapped: Mapped::default(),
            watches: Watches::default(),
            state: State::Idle,
            own: None,
            root: None,
            arrivals: Vec::with_capacity(shared.ranks()),
            brought: Vec::with_capacity(shared.ranks()),
            sources: Sources::default(),
            sent: vec![0; shared.ranks()],
            received: vec![0; shared.ranks()],
            shared,
        })
    }

    /// Memory of the group to build tensors of these types and shapes in, to be contributed without a copy.
    ///
    /// # Errors
    /// [`CommError::Held`], [`CommError::Segment`].
    pub fn loan(&mut self, parts: &[(DType, &[usize])]) -> Result<Loan, CommError> {
        let template = self.template(parts.iter().copied())?;
        Loan::new(Arc::clone(&self.shared), &mut self.blocks, template)
    }

    /// As [`launch`](Communicator::launch), with what was built in a loan of this rank.
    ///
    /// # Errors
    /// As [`launch`](Communicator::launch).
    pub fn launch_loan(&mut self, plan: PlanId, loan: Loan) -> Result<(), CommError> {
        let operation = self.may_launch(plan)?;
        if !Arc::ptr_eq(&loan.shared, &self.shared) || loan.rank != self.rank {
            return Err(CommError::Corrupt {
                what: "a loan of another rank",
            });
        }
        self.bring(operation, loan, None)
    }

    /// How far it is, for the models.
    #[cfg(test)]
    pub(super) fn progress(&self) -> u64 {
        let (phase, count) = match &self.state {
            State::Idle => (1, 0),
            State::Arriving { arrived, .. } => (2, *arrived),
            State::Sharing { done, .. } => (3, *done),
        };
        self.number << 16 | phase << 8 | count as u64
    }

    /// Bytes of this rank's blocks of memory.
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

    /// Why the group has ended, if it has.
    fn ended(&self) -> Result<(), CommError> {
        match self.shared.words.end()? {
            None => Ok(()),
            Some(End::Died { rank, pid }) => Err(CommError::PeerLost { rank, pid }),
            Some(End::Aborted { rank }) => Err(CommError::Aborted { rank }),
        }
    }

    fn bring(
        &mut self,
        operation: Collective,
        loan: Loan,
        private: Option<Private>,
    ) -> Result<(), CommError> {
        let Loan { taken, template, .. } = loan;
        write_head(&taken.region, &template.encoded)?;
        let gathers = match operation {
            Collective::AllGather => self.rank == 0,
            Collective::Gather { root } => self.rank == root,
            _ => false,
        };
        let mut results = None;
        // What is too large to be gathered is refused by everybody.
        let gathered = || gathered(&template.heads, self.shared.ranks())?.spans(0);
        if gathers && let Some((_, len)) = gathered() {
            results = Some(self.blocks.take(&self.shared, len)?);
        }
        let arrival = Arrival {
            what: operation.code(),
            signature: template.signature,
            head_len: template.encoded.len() as u64,
            ..Arrival::default()
        };
        let under_way = UnderWay {
            operation,
            template: Some(template),
            private,
            brought: Some(taken),
            results,
        };
        self.arrive(under_way, arrival)
    }

    fn arrive(&mut self, under_way: UnderWay, arrival: Arrival) -> Result<(), CommError> {
        let number = self.number + 1;
        let place = |taken: &Option<Taken>| taken.as_ref().map_or(NO_BLOCK, |taken| taken.index as u64);
        let arrival = Arrival {
            block: place(&under_way.brought),
            results: place(&under_way.results),
            ..arrival
        };
        for taken in [&under_way.brought, &under_way.results].into_iter().flatten() {
            self.blocks.used_in(taken, number);
        }
        fault_point::at("rank: before arriving");
        self.shared.words.arrive(self.rank, number, arrival)?;
        fault_point::at("rank: after arriving");
        self.number = number;
        self.state = State::Arriving {
            under_way,
            arrived: 0,
        };
        self.ring_others();
        Ok(())
    }

    fn ring_others(&self) {
        Doorbell::ring_all_but(&self.shared.bells, self.rank);
    }

    /// Tries to bring the operation further. `None` where it waits for others.
    fn advance(&mut self) -> Result<Option<Vec<Tensor>>, CommError> {
        let (number, ranks) = (self.number, self.shared.ranks());
        if let State::Arriving { arrived, .. } = &mut self.state {
            while *arrived < ranks {
                let rank = *arrived;
                if rank != self.rank && !self.shared.words.has_arrived(rank, number)? {
                    return self.missing(rank);
                }
                *arrived += 1;
            }
            let State::Arriving { under_way, .. } = std::mem::replace(&mut self.state, State::Idle) else {
                return Err(CommError::Idle);
            };
            let agreed = match self.agree(&under_way) {
                Ok(Ok(agreed)) => agreed,
                Err(error) if is_of_the_dying(&error) && self.find_gone().is_none() => {
                    // Its end will be told, and until then it is waited for.
                    let arrived = ranks;
                    self.state = State::Arriving { under_way, arrived };
                    return Ok(None);
                }
                Err(error) => return Err(error),
                Ok(Err(refused)) => {
                    self.done()?;
                    self.finish()?;
                    return Err(refused);
                }
            };
            fault_point::at("rank: before its share");
            let (product, together) = match &agreed.template {
                None => (Product::Nothing, false),
                Some(template) => {
                    let mut sources = std::mem::take(&mut self.sources);
                    let meeting = self.meeting(under_way.operation, template, &agreed, under_way.private);
                    let shared = meeting.share(&mut sources);
                    self.sources = sources;
                    shared?
                }
            };
            fault_point::at("rank: after its share");
            self.done()?;
            self.state = State::Sharing {
                under_way,
                product,
                done: if together { 0 } else { ranks },
            };
        }
        let State::Sharing { done, .. } = &mut self.state else {
            return Err(CommError::Idle);
        };
        while *done < ranks {
            let rank = *done;
            if rank != self.rank && !self.shared.words.is_done(rank, number)? {
                return self.missing(rank);
            }
            *done += 1;
        }
        let State::Sharing { product, .. } = std::mem::replace(&mut self.state, State::Idle) else {
            return Err(CommError::Idle);
        };
        let made = tensors(product, &self.shared, self.rank, &mut self.mapped);
        fault_point::at("rank: before finishing");
        self.finish()?;
        fault_point::at("rank: after finishing");
        made.map(Some)
    }

    fn done(&self) -> Result<(), CommError> {
        self.shared.words.set_done(self.rank, self.number)?;
        self.ring_others();
        Ok(())
    }

    fn finish(&self) -> Result<(), CommError> {
        Ok(self.shared.words.set_finished(self.rank, self.number)?)
    }

    /// Rank `rank` has not come: whether it still can.
    #[cold]
    fn missing(&mut self, rank: usize) -> Result<Option<Vec<Tensor>>, CommError> {
        let words = &self.shared.words;
        let left = matches!(words.holder(rank)?, Some((_, true)));
        // Looked at again: it may have come, and then left.
        let come = match &self.state {
            State::Arriving { .. } => words.has_arrived(rank, self.number)?,
            _ => words.is_done(rank, self.number)?,
        };
        if come {
            return Ok(None);
        }
        self.ended()?;
        if left {
            Err(CommError::PeerLeft { rank })
        } else {
            Ok(None)
        }
    }

    fn meeting<'a>(
        &'a self,
        operation: Collective,
        template: &'a Template,
        agreed: &Agreed,
        private: Option<Private>,
    ) -> Meeting<'a> {
        Meeting {
            operation,
            template,
            brought: &self.brought,
            results: agreed.results,
            rank: self.rank,
            private,
        }
    }

    /// Reads what everybody has brought: what is to be done, or why nobody does it (`COLL-3`).
    fn agree(&mut self, under_way: &UnderWay) -> Result<Result<Agreed, CommError>, CommError> {
        let (operation, ranks) = (under_way.operation, self.shared.ranks());
        self.arrivals.clear();
        for rank in 0..ranks {
            self.arrivals.push(self.shared.words.arrival(rank, self.number)?);
        }
        let first = self.arrivals.first().copied().unwrap_or_default();
        let reads_all = operation.reads_all();
        let differs = |arrival: &Arrival| {
            arrival.what != first.what || (reads_all && arrival.signature != first.signature)
        };
        let odd = self
            .arrivals
            .iter()
            .position(|arrival| arrival.failed || differs(arrival));
        if odd.is_some() {
            return self.disagree(reads_all).map(Err);
        }
        let template = match operation.root().filter(|_| !reads_all) {
            _ if operation == Collective::Barrier => {
                return Ok(Ok(Agreed {
                    template: None,
                    results: None,
                }));
            }
            Some(root) if root != self.rank => Some(self.template_of(root)?),
            _ => under_way.template.clone(),
        };
        self.brought.clear();
        for rank in 0..ranks {
            let read = reads_all || operation.root() == Some(rank);
            let brought = if read {
                Some(self.block(rank, |it| it.block)?)
            } else {
                None
            };
            self.brought.push(brought);
        }
        let mut agreed = Agreed {
            template,
            results: None,
        };
        if let Some(template) = &agreed.template
            && let Some(refused) = self.meeting(operation, template, &agreed, None).refused()
        {
            return Ok(Err(refused));
        }
        let gatherer = match operation {
            Collective::AllGather => Some(0),
            Collective::Gather { root } => Some(root),
            _ => None,
        };
        if let Some(rank) = gatherer {
            agreed.results = Some(self.block(rank, |it| it.results)?);
        }
        Ok(Ok(agreed))
    }

    /// Why what has been brought does not go together; the same on every rank.
    #[cold]
    fn disagree(&mut self, reads_all: bool) -> Result<CommError, CommError> {
        if let Some(rank) = self.arrivals.iter().position(|arrival| arrival.failed) {
            let report = self.read_head(rank)?;
            return Ok(CommError::PeerFailed { rank, report });
        }
        let first = self.arrivals.first().copied().unwrap_or_default();
        let differs = |arrival: &Arrival| {
            arrival.what != first.what || (reads_all && arrival.signature != first.signature)
        };
        let rank = self.arrivals.iter().position(differs).unwrap_or_default();
        let mut describe = |rank: usize| {
            let arrival = self.arrivals.get(rank).copied().unwrap_or_default();
            let mut name = Collective::name_of(arrival.what);
            if arrival.block != NO_BLOCK {
                name += " of ";
                name += &self.template_of(rank)?.heads.describe();
            }
            Ok::<_, CommError>(name)
        };
        let (first, other) = (describe(0)?, describe(rank)?);
        Ok(CommError::Mismatch { first, rank, other })
    }

    fn block(&mut self, rank: usize, which: impl Fn(&Arrival) -> u64) -> Result<Brought, CommError> {
        let index = self.arrivals.get(rank).map_or(NO_BLOCK, which);
        let region = self.mapped.block(&self.shared, rank, index)?;
        Brought::new(index as usize, region)
    }

    /// What stands at the begin of the block that a rank has brought.
    #[allow(unsafe_code)] // reads the begin of a block
    fn head_of(&mut self, rank: usize, block: u64, len: u64) -> Result<Vec<u8>, CommError> {
        let region = self.mapped.block(&self.shared, rank, block)?;
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        // SAFETY: the rank whose block it is has arrived, or sent it, and writes nothing before everybody has finished, or taken
        // it (`COLL-1`, `COLL-2`).
        Ok(unsafe { region.bytes(0, len)? }.to_vec())
    }

    fn read_head(&mut self, rank: usize) -> Result<Vec<u8>, CommError> {
        let arrival = self.arrivals.get(rank).copied().unwrap_or_default();
        self.head_of(rank, arrival.block, arrival.head_len)
    }

    /// Types and shapes of what another rank has brought.
    fn template_of(&mut self, rank: usize) -> Result<Arc<Template>, CommError> {
        let encoded = self.read_head(rank)?;
        self.template_with(encoded)
    }

    fn template_with(&mut self, encoded: Vec<u8>) -> Result<Arc<Template>, CommError> {
        let known = self
            .root
            .iter()
            .chain(&self.own)
            .find(|known| known.encoded == encoded);
        if let Some(known) = known {
            return Ok(Arc::clone(known));
        }
        let template = Template::decode(encoded).ok_or(CommError::Corrupt {
            what: "heads that are none",
        })?;
        let template = Arc::new(template);
        self.root = Some(Arc::clone(&template));
        Ok(template)
    }

    /// A rank that has left, or whose process has ended.
    #[cold]
    fn find_gone(&self) -> Option<CommError> {
        if let Err(ended) = self.ended() {
            return Some(ended);
        }
        (0..self.shared.ranks()).find_map(|rank| match self.shared.words.holder(rank) {
            Ok(Some((_, true))) => Some(CommError::PeerLeft { rank }),
            // Where somebody else watches over the processes, it is for them to say.
            Ok(Some((process, false))) if self.shared.watches && !process.is_current() => {
                let pid = process.pid;
                self.shared.end(End::Died { rank, pid });
                Some(CommError::PeerLost { rank, pid })
            }
            _ => None,
        })
    }

    /// Whether somebody may still have to map what this rank brought last.
    fn is_needed(&self) -> bool {
        let words = &self.shared.words;
        let unread = |(to, number): (usize, u64)| {
            let gone = matches!(words.holder(to), Ok(Some((_, true))));
            !gone && !self.shared.is_here(to) && words.taken(self.rank, to).is_ok_and(|taken| taken < number)
        };
        if self.blocks.messages().any(unread) {
            return true;
        }
        let needs = |rank: usize| {
            let gone = matches!(words.holder(rank), Ok(None | Some((_, true))));
            let done = words.is_done(rank, self.number).unwrap_or(true);
            !gone && !done && !self.shared.is_here(rank)
        };
        (0..self.shared.ranks()).any(needs)
    }

    /// Waits until nobody needs this rank any more.
    fn linger(&mut self, timeout: Option<Duration>) {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let Some(bell) = self.shared.bells.get(self.rank).cloned() else {
            return;
        };
        let shared = Arc::clone(&self.shared);
        let over = |rank: &Self| rank.ended().is_err() || !rank.is_needed();
        if !over(self) {
            bell.wait(&shared.waiting, deadline, || {
                self.watches.look(&shared);
                over(self)
            });
        }
    }

    /// Waits until `attempt` has an answer, with an eye on the others.
    fn until<R>(
        &mut self,
        timeout: Option<Duration>,
        mut attempt: impl FnMut(&mut Self) -> Result<Option<R>, CommError>,
    ) -> Result<Result<R, Duration>, CommError> {
        if let Some(found) = attempt(self)? {
            return Ok(Ok(found));
        }
        let started = Instant::now();
        let deadline = timeout
            .or(self.shared.timeout)
            .and_then(|timeout| started.checked_add(timeout));
        let waiting = self.shared.waiting.for_payload(self.blocks.len_bytes());
        let shared = Arc::clone(&self.shared);
        let Some(bell) = shared.bells.get(self.rank) else {
            return Err(CommError::Idle);
        };
        let mut outcome = Ok(None);
        if !waiting.spin(deadline, || {
            outcome = attempt(self);
            !matches!(outcome, Ok(None))
        }) {
            bell.wait(&Waiting::Park, deadline, || {
                // Before the attempt, which then sees what a death has done.
                self.watches.look(&shared);
                outcome = attempt(self);
                !matches!(outcome, Ok(None))
            });
        }
        Ok(outcome?.ok_or_else(|| started.elapsed()))
    }

    /// Whether rank `other`, which this rank waits for, still can do anything.
    fn awaited(&self, other: usize) -> Result<(), CommError> {
        self.ended()?;
        match self.shared.words.holder(other)? {
            Some((_, true)) => Err(CommError::PeerLeft { rank: other }),
            _ => Ok(()),
        }
    }

    fn other(&self, rank: usize) -> Result<(), CommError> {
        let ranks = self.shared.ranks();
        if rank < ranks {
            Ok(())
        } else {
            Err(CommError::NoSuchRank { rank, ranks })
        }
    }

    /// The message that a rank has sent, as a view.
    fn take_message(&mut self, from: usize, (block, head_len): (u64, u64)) -> Result<Vec<Tensor>, CommError> {
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

    /// Who is missing, for people.
    fn describe_missing(&self) -> String {
        let missing = |rank: &usize| match self.state {
            State::Arriving { .. } => !self.shared.words.has_arrived(*rank, self.number).unwrap_or(true),
            _ => !self.shared.words.is_done(*rank, self.number).unwrap_or(true),
        };
        let name = |rank: usize| match self.shared.words.holder(rank) {
            Ok(Some((process, _))) => format!("rank {rank} (process {})", process.pid),
            _ => format!("rank {rank}, which nobody has taken"),
        };
        let missing: Vec<String> = (0..self.shared.ranks()).filter(missing).map(name).collect();
        missing.join(", ")
    }

    /// Joins one piece. Others find in this rank's block what they reduce, and this rank's own slice stays where it is.
    fn allreduce_piece<E: Element>(
        &mut self,
        plan: PlanId,
        piece: &mut [E],
        whole: usize,
    ) -> Result<(), CommError> {
        let operation = self.may_launch(plan)?;
        let (shape, ends) = ([piece.len()], [0, whole]);
        // An empty part that says how long the whole is, so that ranks which disagree hear of it at the first piece.
        let parts = [(E::DTYPE, shape.as_slice()), (E::DTYPE, ends.as_slice())];
        let mut loan = self.loan(&parts)?;
        let span = loan.template.spans.first().copied().ok_or(CommError::Idle)?;
        // Others find in the block what they reduce: all of it where everybody reduces everything.
        let one_shot = is_one_shot(&loan.template);
        let (from, count) = if one_shot {
            (0, 0)
        } else {
            slice(&span, self.rank, self.shared.ranks())
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
        self.bring(operation, loan, Some(begin))?;
        let outcome = self.wait(None);
        if let State::Arriving { under_way, .. } = &mut self.state {
            // It was waited for long enough, and the piece may go: a copy takes its place.
            under_way.private = None;
            if let Some(taken) = &under_way.brought {
                let own = bytes_of(piece).get(from * size..(from + count) * size);
                write_bytes(&taken.region, span.offset + from * size, own.unwrap_or_default())?;
            }
        }
        let result = outcome?;
        if one_shot {
            return Ok(());
        }
        let joined = result.first().ok_or(CommError::Idle)?.as_slice::<E>()?;
        let after = from + count;
        for (to, from) in [(0..from, 0..from), (after..span.count, after..span.count)] {
            if let (Some(to), Some(from)) = (piece.get_mut(to), joined.get(from)) {
                to.copy_from_slice(from);
            }
        }
        Ok(())
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
        let ranks = self.shared.ranks();
        if let Some(rank) = operation.root().filter(|root| *root >= ranks) {
            return Err(CommError::NoSuchRank { rank, ranks });
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
            brought: None,
            results: None,
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
        if matches!(outcome, Err(CommError::Segment(_) | CommError::Corrupt { .. })) {
            // Memory that went with its owner, whose end nobody has told of yet; or this rank cannot do its share, and nobody
            // can do without it.
            outcome = Err(self.find_gone().unwrap_or_else(|| {
                self.shared.end(End::Aborted { rank: self.rank });
                outcome.err().unwrap_or(CommError::Idle)
            }));
        }
        if matches!(
            outcome,
            Err(CommError::PeerLost { .. } | CommError::PeerLeft { .. } | CommError::Aborted { .. })
        ) {
            self.state = State::Idle;
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
        self.other(to)?;
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

    fn recv(&mut self, from: usize, timeout: Option<Duration>) -> Result<Vec<Tensor>, CommError> {
        self.other(from)?;
        let number = self.received.get(from).copied().unwrap_or_default() + 1;
        let received = self.until(timeout, |rank| {
            let awaited = rank.awaited(from);
            // Looked at afterwards: it may have sent, and then left.
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

    fn abort_handle(&self) -> AbortHandle {
        let (shared, rank) = (Arc::clone(&self.shared), self.rank);
        AbortHandle::new(move || shared.end(End::Aborted { rank }))
    }

    fn close(mut self: Box<Self>, timeout: Duration) -> Result<(), CommError> {
        let outcome = match self.state {
            State::Idle => Ok(()),
            _ => self.wait(Some(timeout)).map(|_| ()),
        };
        self.linger(Some(timeout));
        outcome
    }

    /// What is large goes in pieces, so that it takes little memory of the group and stays in the caches. Only what others
    /// reduce is copied to them, and only what they have reduced is copied back.
    fn allreduce_slice<E: Element>(&mut self, op: ReduceOp, values: &mut [E]) -> Result<(), CommError> {
        let plan = self.plan(Collective::AllReduce(op))?;
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
        if !matches!(self.state, State::Idle) {
            self.shared.words.set_end(End::Aborted { rank: self.rank });
        } else if self.shared.watches && !std::thread::panicking() {
            self.linger(self.shared.timeout);
        }
        self.shared.words.leave(self.rank);
        self.shared.ring_all();
    }
}

/// Whether somebody's memory is not there any more: a process that ends closes its files before others can see that it ends.
fn is_of_the_dying(error: &CommError) -> bool {
    match error {
        CommError::Segment(SegmentError::System { source, .. }) => {
            source.kind() == std::io::ErrorKind::NotFound
        }
        CommError::Segment(SegmentError::Foreign { .. }) => true,
        _ => false,
    }
}

fn write_head(region: &Region, bytes: &[u8]) -> Result<(), CommError> {
    write_bytes(region, 0, bytes)
}

/// Writes into a block that was taken and of which nobody reads these bytes.
#[allow(unsafe_code)]
fn write_bytes(region: &Region, offset: usize, bytes: &[u8]) -> Result<(), CommError> {
    let to = region.address(offset, bytes.len())?;
    // SAFETY: room for so many bytes, that nobody else looks at: a head before the rank has arrived (`COLL-2`), or the slice
    // that the rank reduces itself.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    Ok(())
}
