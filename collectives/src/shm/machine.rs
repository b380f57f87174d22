//! One rank of a group: launches operations and brings them to their end, one at a time, without ever blocking unless asked.

use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge_channels::fault_point;
use selvedge_channels::{DType, Doorbell, Tensor, TensorError, Waiting};

use super::block::{Blocks, Loan, Mapped, Taken};
use super::group::Shared;
use super::layout::{Arrival, End};
use super::share::{Brought, Meeting, Product};
use super::watch::Watches;
use crate::communicator::{AbortHandle, Capabilities, Communicator, Contribution, PlanId};
use crate::error::CommError;
use crate::operation::Collective;
use crate::parts::{Head, Heads, signature};

const NO_BLOCK: u64 = u64::MAX;

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
    _brought: Option<Taken>,
    _results: Option<Taken>,
}

impl std::fmt::Debug for Rank {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = match &self.state {
            State::Idle => "idle".to_owned(),
            State::Arriving { under_way, .. } | State::Sharing { under_way, .. } => {
                under_way.operation.to_string()
            }
        };
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
            shared,
        })
    }

    /// Memory of the group to build tensors of these types and shapes in, to be contributed without a copy.
    ///
    /// # Errors
    /// [`CommError::Held`], [`CommError::Segment`].
    pub fn loan(&mut self, parts: &[(DType, &[usize])]) -> Result<Loan, CommError> {
        let head = |(dtype, shape): &(DType, &[usize])| Head {
            dtype: *dtype,
            shape: shape.to_vec(),
        };
        let heads = Heads(parts.iter().map(head).collect());
        Loan::new(Arc::clone(&self.shared), &mut self.blocks, heads)
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
        self.bring(operation, loan)
    }

    /// Bytes of this rank's blocks of memory.
    pub fn memory_bytes(&self) -> usize {
        self.blocks.len_bytes()
    }

    fn may_launch(&self, plan: PlanId) -> Result<Collective, CommError> {
        self.ended()?;
        match &self.state {
            State::Idle => self.plans.get(plan.0).copied().ok_or(CommError::NoSuchPlan),
            State::Arriving { under_way, .. } | State::Sharing { under_way, .. } => Err(CommError::Busy {
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

    fn bring(&mut self, operation: Collective, loan: Loan) -> Result<(), CommError> {
        let Loan {
            taken,
            heads,
            encoded,
            ..
        } = loan;
        let to = taken.region.address(0, encoded.len())?;
        write_head(to, &encoded);
        let gathers = match operation {
            Collective::AllGather => self.rank == 0,
            Collective::Gather { root } => self.rank == root,
            _ => false,
        };
        let mut results = None;
        if gathers && let Some(heads) = Meeting::gathered(&heads, self.shared.ranks()) {
            let (_, len) = heads.spans(0).ok_or(TensorError::Memory { len_bytes: None })?;
            results = Some(self.blocks.take(&self.shared, len)?);
        }
        let arrival = Arrival {
            what: operation.code(),
            signature: signature(&encoded),
            head_len: encoded.len() as u64,
            ..Arrival::default()
        };
        self.arrive(operation, arrival, Some(taken), results)
    }

    fn arrive(
        &mut self,
        operation: Collective,
        arrival: Arrival,
        brought: Option<Taken>,
        results: Option<Taken>,
    ) -> Result<(), CommError> {
        let number = self.number + 1;
        let place = |taken: &Option<Taken>| taken.as_ref().map_or(NO_BLOCK, |taken| taken.index as u64);
        let arrival = Arrival {
            block: place(&brought),
            results: place(&results),
            ..arrival
        };
        for taken in [&brought, &results].into_iter().flatten() {
            self.blocks.used_in(taken, number);
        }
        fault_point::at("rank: before arriving");
        self.shared.words.arrive(self.rank, number, arrival)?;
        fault_point::at("rank: after arriving");
        self.number = number;
        let under_way = UnderWay {
            operation,
            _brought: brought,
            _results: results,
        };
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
        let number = self.number;
        if let State::Arriving { arrived, .. } = &mut self.state {
            while *arrived < self.shared.ranks() {
                if !self.shared.words.has_arrived(*arrived, number)? {
                    let missing = *arrived;
                    return self.missing(missing);
                }
                *arrived += 1;
            }
            let State::Arriving { under_way, .. } = std::mem::replace(&mut self.state, State::Idle) else {
                return Err(CommError::Idle);
            };
            let met = self.meet(under_way.operation)?;
            let meeting = match met {
                Ok(meeting) => meeting,
                Err(refused) => {
                    self.shared.words.set_done(self.rank, number)?;
                    self.finish()?;
                    self.ring_others();
                    return Err(refused);
                }
            };
            fault_point::at("rank: before its share");
            let (product, together) = meeting.share(self.rank)?;
            fault_point::at("rank: after its share");
            self.shared.words.set_done(self.rank, number)?;
            let done = if together { 0 } else { self.shared.ranks() };
            self.state = State::Sharing {
                under_way,
                product,
                done,
            };
            self.ring_others();
        }
        let State::Sharing { done, .. } = &mut self.state else {
            return Err(CommError::Idle);
        };
        while *done < self.shared.ranks() {
            if !self.shared.words.is_done(*done, number)? {
                let missing = *done;
                return self.missing(missing);
            }
            *done += 1;
        }
        let State::Sharing {
            under_way, product, ..
        } = std::mem::replace(&mut self.state, State::Idle)
        else {
            return Err(CommError::Idle);
        };
        let tensors = product.tensors(&self.shared, self.rank);
        fault_point::at("rank: before finishing");
        self.finish()?;
        fault_point::at("rank: after finishing");
        drop(under_way);
        tensors.map(Some)
    }

    fn finish(&self) -> Result<(), CommError> {
        Ok(self.shared.words.set_finished(self.rank, self.number)?)
    }

    /// Rank `rank` has not come: whether it still can.
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

    /// A rank that has left, or whose process has ended.
    fn find_gone(&self) -> Option<CommError> {
        if let Err(ended) = self.ended() {
            return Some(ended);
        }
        (0..self.shared.ranks()).find_map(|rank| match self.shared.words.holder(rank) {
            Ok(Some((_, true))) => Some(CommError::PeerLeft { rank }),
            Ok(Some((process, false))) if !process.is_current() => {
                self.shared.end(End::Died {
                    rank,
                    pid: process.pid,
                });
                Some(CommError::PeerLost {
                    rank,
                    pid: process.pid,
                })
            }
            _ => None,
        })
    }

    /// Whether somebody may still have to map what this rank brought last.
    fn is_needed(&self) -> bool {
        let words = &self.shared.words;
        let needs = |rank: usize| {
            let gone = matches!(words.holder(rank), Ok(None | Some((_, true))));
            !gone && !self.shared.is_here(rank) && words.is_done(rank, self.number).is_ok_and(|done| !done)
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
            let waiting = self.shared.waiting;
            bell.wait(&waiting, deadline, || {
                self.watches.look(&shared);
                over(self)
            });
        }
    }

    /// Reads what everybody has brought: what is to be done, or why nobody does it (`COLL-3`).
    fn meet(&mut self, operation: Collective) -> Result<Result<Meeting, CommError>, CommError> {
        let (number, ranks) = (self.number, self.shared.ranks());
        let arrivals = (0..ranks).map(|rank| self.shared.words.arrival(rank, number));
        let arrivals = arrivals.collect::<Result<Vec<_>, _>>()?;
        if let Some((rank, failed)) = arrivals.iter().enumerate().find(|(_, arrival)| arrival.failed) {
            let region = self.mapped.block(&self.shared, rank, failed.block)?;
            let report = read_head(region, failed.head_len)?;
            return Ok(Err(CommError::PeerFailed { rank, report }));
        }
        let first = arrivals.first().copied().unwrap_or_default();
        let reads_all = operation.reads_all();
        let differs = |arrival: &Arrival| {
            arrival.what != first.what || (reads_all && arrival.signature != first.signature)
        };
        if let Some(rank) = arrivals.iter().position(differs) {
            let mut describe = |rank: usize| {
                let arrival = arrivals.get(rank).copied().unwrap_or_default();
                let heads = self.heads(rank, arrival)?;
                Ok::<_, CommError>(format!(
                    "{} of {}",
                    Collective::name_of(arrival.what),
                    heads.describe()
                ))
            };
            let (first, other) = (describe(0)?, describe(rank)?);
            return Ok(Err(CommError::Mismatch { first, rank, other }));
        }
        let giver = if reads_all {
            self.rank
        } else {
            operation.root().unwrap_or_default()
        };
        let giving = arrivals.get(giver).copied().unwrap_or_default();
        let heads = if operation == Collective::Barrier {
            Heads::default()
        } else {
            self.heads(giver, giving)?
        };
        let corrupt = CommError::Corrupt {
            what: "shapes beyond what can be addressed",
        };
        let start = usize::try_from(giving.head_len).unwrap_or(usize::MAX);
        let (spans, len) = heads.spans(start).ok_or(corrupt)?;
        let mut brought = Vec::with_capacity(ranks);
        for (rank, arrival) in arrivals.iter().enumerate() {
            let read = reads_all || operation.root() == Some(rank);
            brought.push(if read {
                Some(self.brought(rank, arrival.block)?)
            } else {
                None
            });
        }
        let gatherer = match operation {
            Collective::AllGather => Some(0),
            Collective::Gather { root } => Some(root),
            _ => None,
        };
        let mut meeting = Meeting {
            operation,
            heads,
            spans,
            len: len.saturating_sub(start),
            brought,
            results: None,
        };
        if let Some(refused) = meeting.refused() {
            return Ok(Err(refused));
        }
        if let Some(rank) = gatherer {
            let block = arrivals.get(rank).map_or(NO_BLOCK, |arrival| arrival.results);
            meeting.results = Some(self.brought(rank, block)?);
        }
        Ok(Ok(meeting))
    }

    fn brought(&mut self, rank: usize, block: u64) -> Result<Brought, CommError> {
        let region = self.mapped.block(&self.shared, rank, block)?.clone();
        Ok(Brought {
            index: block as usize,
            region,
        })
    }

    /// Types and shapes of what a rank brings.
    fn heads(&mut self, rank: usize, arrival: Arrival) -> Result<Heads, CommError> {
        if arrival.block == NO_BLOCK {
            return Ok(Heads::default());
        }
        let region = self.mapped.block(&self.shared, rank, arrival.block)?;
        let bytes = read_head(region, arrival.head_len)?;
        postcard::from_bytes(&bytes).map_err(|_| CommError::Corrupt {
            what: "heads that are none",
        })
    }

    fn under_way(&self) -> Option<Collective> {
        match &self.state {
            State::Idle => None,
            State::Arriving { under_way, .. } | State::Sharing { under_way, .. } => Some(under_way.operation),
        }
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
        let parts = match contribution {
            Contribution::Failure(report) => {
                let taken = self.blocks.take(&self.shared, report.len())?;
                write_head(taken.region.address(0, report.len())?, report);
                let head_len = report.len() as u64;
                let arrival = Arrival {
                    what: operation.code(),
                    head_len,
                    failed: true,
                    ..Arrival::default()
                };
                return self.arrive(operation, arrival, Some(taken), None);
            }
            Contribution::Parts(parts) => parts,
        };
        let looked_at = operation.reads_all() || operation.root() == Some(self.rank);
        if !looked_at {
            let arrival = Arrival {
                what: operation.code(),
                ..Arrival::default()
            };
            return self.arrive(operation, arrival, None, None);
        }
        let mut loan = Loan::new(Arc::clone(&self.shared), &mut self.blocks, Heads::of(parts)?)?;
        for (index, part) in parts.iter().enumerate() {
            loan.fill(index, part.bytes)?;
        }
        self.bring(operation, loan)
    }

    fn poll(&mut self) -> Result<Option<Vec<Tensor>>, CommError> {
        let mut outcome = self.advance();
        if matches!(outcome, Err(CommError::Segment(_) | CommError::Corrupt { .. })) {
            // Memory that went with its owner, whose end nobody has told of yet; or this rank cannot do its share, and nobody can
            // do without it.
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
        let Some(operation) = self.under_way() else {
            return Err(CommError::Idle);
        };
        let started = Instant::now();
        let deadline = timeout
            .or(self.shared.timeout)
            .and_then(|timeout| started.checked_add(timeout));
        let mut outcome = self.poll();
        if matches!(outcome, Ok(None)) {
            let waiting = self.shared.waiting.for_payload(self.blocks.len_bytes());
            let Some(bell) = self.shared.bells.get(self.rank).cloned() else {
                return Err(CommError::Idle);
            };
            let mut attempt = |rank: &mut Self| {
                outcome = rank.poll();
                !matches!(outcome, Ok(None))
            };
            if !waiting.spin(deadline, || attempt(self)) {
                let shared = Arc::clone(&self.shared);
                bell.wait(&Waiting::Park, deadline, || {
                    // Before the attempt, which then sees what a death has done.
                    self.watches.look(&shared);
                    attempt(self)
                });
            }
        }
        outcome?.ok_or_else(|| CommError::Timeout {
            operation,
            waited: started.elapsed(),
            missing: self.describe_missing(),
        })
    }

    fn abort_handle(&self) -> AbortHandle {
        let (shared, rank) = (Arc::clone(&self.shared), self.rank);
        AbortHandle::new(move || shared.end(End::Aborted { rank }))
    }

    fn close(mut self: Box<Self>, timeout: Duration) -> Result<(), CommError> {
        let outcome = match self.under_way() {
            None => Ok(()),
            Some(_) => self.wait(Some(timeout)).map(|_| ()),
        };
        self.linger(Some(timeout));
        outcome
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

#[allow(unsafe_code)] // writes the begin of a block
fn write_head(to: *mut u8, bytes: &[u8]) {
    // SAFETY: `to` is the begin of a block that was taken with room for so many bytes and that nobody else looks at (`COLL-2`).
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
}

#[allow(unsafe_code)] // reads the begin of a block
fn read_head(region: &selvedge_channels::Region, len: u64) -> Result<Vec<u8>, CommError> {
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    // SAFETY: the rank whose block it is has arrived, and writes nothing before everybody has finished (`COLL-1`, `COLL-2`).
    Ok(unsafe { region.bytes(0, len)? }.to_vec())
}
