//! The leader of a host: it gathers what the ranks of its host bring, exchanges it with the other hosts, and gives the ranks
//! their results.

use super::brought::{Brought, decode, encode};
use super::exchange::{HostExchange, HostPlaces};
use super::replay::Replay;
use crate::error::CommError;
use crate::operation::{Collective, ReduceOp};
use crate::shm::Rank;

/// The progress of a leader in an operation.
enum LeaderPhase {
    /// Contributions of its host are missing.
    Gathering,
    /// Shares of other hosts are missing; these are the items of its own.
    Exchanging(Vec<Brought>),
}

/// The part of a leader.
pub(super) struct Leader {
    exchange: Box<dyn HostExchange>,
    /// The contributions of the host's ranks, in their order.
    gathered: Vec<Option<Brought>>,
    phase: LeaderPhase,
    /// The operations of the host's ranks, of the hosts, and of all ranks.
    here: Replay,
    hosts: Replay,
    all: Replay,
}

/// The reduction that is done on each host first, if the operation has one.
fn reduction(operation: Collective) -> Option<ReduceOp> {
    match operation {
        Collective::AllReduce(op) | Collective::Reduce { op, .. } if op != ReduceOp::Average => Some(op),
        _ => None,
    }
}

impl Leader {
    pub(super) fn new(exchange: Box<dyn HostExchange>, ranks: usize) -> Self {
        Leader {
            exchange,
            gathered: (0..ranks).map(|_| None).collect(),
            phase: LeaderPhase::Gathering,
            here: Replay::default(),
            hosts: Replay::default(),
            all: Replay::default(),
        }
    }

    /// Begins an operation with the leader's own contribution.
    pub(super) fn begin(&mut self, own: Brought) {
        if let Some(first) = self.gathered.first_mut() {
            *first = Some(own);
        }
    }

    /// Goes on with the operation. Returns the leader's result; `None` while it waits for others.
    pub(super) fn advance(
        &mut self,
        operation: Collective,
        host: usize,
        places: &HostPlaces,
        local: &mut Rank,
    ) -> Result<Option<Brought>, CommError> {
        if matches!(self.phase, LeaderPhase::Gathering) {
            let Some(items) = self.gather(operation, local)? else {
                return Ok(None);
            };
            self.exchange.post(encode(&items))?;
            self.phase = LeaderPhase::Exchanging(items);
        }
        let Some(shares) = self.exchange.poll()? else {
            return Ok(None);
        };
        let LeaderPhase::Exchanging(own) = std::mem::replace(&mut self.phase, LeaderPhase::Gathering) else {
            return Ok(None);
        };
        let mut shares = shares.into_iter();
        let mut items = Vec::with_capacity(places.hosts());
        for number in 0..places.hosts() {
            let count = reduction(operation).map_or_else(|| places.ranks_on(number).len(), |_| 1);
            items.push(match number == host {
                true => own.clone(),
                false => decode(&shares.next().unwrap_or_default(), count)?,
            });
        }
        let results = match reduction(operation) {
            Some(op) => self.reduced(operation, op, host, places, &items),
            None => self.replayed(operation, host, places, &items),
        };
        self.give(results?, local)
    }

    /// Gathers the contributions of the host; `None` while some are missing.
    fn gather(&mut self, operation: Collective, local: &mut Rank) -> Result<Option<Vec<Brought>>, CommError> {
        for (rank, gathered) in self.gathered.iter_mut().enumerate() {
            if gathered.is_none() {
                let message = local.participant.try_recv(rank)?;
                *gathered = message.map(Brought::from_message).transpose()?;
            }
        }
        if self.gathered.iter().any(Option::is_none) {
            return Ok(None);
        }
        let gathered: Vec<Brought> = self.gathered.iter_mut().filter_map(Option::take).collect();
        let Some(op) = reduction(operation) else {
            return Ok(Some(gathered));
        };
        let brought: Vec<&Brought> = gathered.iter().collect();
        let reduced = self.here.run(Collective::Reduce { op, root: 0 }, &brought)?;
        Ok(Some(reduced.into_iter().take(1).collect()))
    }

    /// The results of the host's ranks, from one item of each host.
    fn reduced(
        &mut self,
        operation: Collective,
        op: ReduceOp,
        host: usize,
        places: &HostPlaces,
        items: &[Vec<Brought>],
    ) -> Result<Vec<Brought>, CommError> {
        let brought: Vec<&Brought> = items.iter().flatten().collect();
        let reduced = self.hosts.run(Collective::AllReduce(op), &brought)?;
        let reduced = reduced.into_iter().next().ok_or(CommError::Idle)?;
        let of_rank = |rank: usize| match &reduced {
            Brought::Tensors(_) if operation.root().is_some_and(|root| root != rank) => {
                Brought::Tensors(Vec::new())
            }
            reduced => reduced.clone(),
        };
        Ok(places.ranks_on(host).into_iter().map(of_rank).collect())
    }

    /// The results of the host's ranks, from the contributions of all ranks.
    fn replayed(
        &mut self,
        operation: Collective,
        host: usize,
        places: &HostPlaces,
        items: &[Vec<Brought>],
    ) -> Result<Vec<Brought>, CommError> {
        let mut of_hosts: Vec<_> = items.iter().map(|items| items.iter()).collect();
        let mut next = |rank: usize| of_hosts.get_mut(places.host_of(rank))?.next();
        let brought: Vec<&Brought> = (0..places.ranks()).filter_map(&mut next).collect();
        let results = self.all.run(operation, &brought)?;
        let mine = |(rank, _): &(usize, Brought)| places.host_of(*rank) == host;
        let results = results.into_iter().enumerate().filter(mine);
        Ok(results.map(|(_, result)| result).collect())
    }

    /// Gives the other ranks of the host their results, and returns the leader's own.
    fn give(&self, results: Vec<Brought>, local: &mut Rank) -> Result<Option<Brought>, CommError> {
        let mut results = results.into_iter();
        let own = results.next();
        for (rank, result) in (1..).zip(results) {
            if !local.participant.try_send(rank, &result.to_message()?)? {
                return Err(CommError::Corrupt {
                    what: "a rank that brings a contribution before it has its last result",
                });
            }
        }
        Ok(own)
    }
}
