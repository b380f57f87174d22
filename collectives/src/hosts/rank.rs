//! A rank of a group over several hosts.

use std::fmt;
use std::time::Duration;

use selvedge_channels::Tensor;

use super::brought::Brought;
use super::exchange::{HostExchange, HostPlaces};
use super::leader::Leader;
use crate::communicator::{AbortHandle, Capabilities, Communicator, Contribution, PlanId, Plans};
use crate::error::CommError;
use crate::operation::Collective;
use crate::shm::Rank;

/// A rank of a group whose ranks are on several hosts. It is driven by `launch` and `poll`, as the lane of a graph does; no call waits.
pub struct HostsRank {
    rank: usize,
    places: HostPlaces,
    /// The rank in the group of the host's ranks, which carries messages.
    local: Rank,
    leader: Option<Leader>,
    plans: Plans,
    operation: Option<Collective>,
}

impl HostsRank {
    /// Makes rank number `rank` of all. `local` is its rank in a group of the ranks on its host, in their order; the first of
    /// them is the leader and needs an exchange.
    ///
    /// # Errors
    /// [`CommError::NoSuchRank`] if there is no such rank.
    pub fn new(
        rank: usize,
        places: HostPlaces,
        local: Rank,
        exchange: Option<Box<dyn HostExchange>>,
    ) -> Result<Self, CommError> {
        let here = places.ranks_on(places.host_of(rank));
        if here.get(local.rank()) != Some(&rank) {
            let ranks = places.ranks();
            return Err(CommError::NoSuchRank { rank, ranks });
        }
        Ok(HostsRank {
            rank,
            places,
            local,
            leader: exchange.map(|exchange| Leader::new(exchange, here.len())),
            plans: Plans::default(),
            operation: None,
        })
    }

    fn unsupported(&self) -> CommError {
        CommError::Unsupported {
            operation: self.operation.unwrap_or(Collective::Barrier),
            why: "a rank over several hosts is driven by its graph, and never waits",
        }
    }
}

impl fmt::Debug for HostsRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.rank, self.places.ranks())
    }
}

impl Communicator for HostsRank {
    fn rank(&self) -> usize {
        self.rank
    }

    fn world_size(&self) -> usize {
        self.places.ranks()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            // Sums are combined on each host first.
            fixed_order: false,
            ..Capabilities::everything("hosts")
        }
    }

    fn plan(&mut self, operation: Collective) -> Result<PlanId, CommError> {
        self.plans.plan(operation, self.places.ranks())
    }

    fn launch(&mut self, plan: PlanId, contribution: Contribution<'_>) -> Result<(), CommError> {
        if let Some(operation) = self.operation {
            return Err(CommError::Busy { operation });
        }
        let operation = self.plans.operation(plan)?;
        let contribution = match contribution {
            Contribution::Parts(_) if !operation.reads(self.rank) => Contribution::Parts(&[]),
            contribution => contribution,
        };
        let own = Brought::of(self.rank, contribution)?;
        match &mut self.leader {
            Some(leader) => leader.begin(own),
            None => {
                if !self.local.participant.try_send(0, &own.to_message()?)? {
                    return Err(CommError::Busy { operation });
                }
            }
        }
        self.operation = Some(operation);
        Ok(())
    }

    fn poll(&mut self) -> Result<Option<Vec<Tensor>>, CommError> {
        let operation = self.operation.ok_or(CommError::Idle)?;
        let outcome = match &mut self.leader {
            Some(leader) => {
                let host = self.places.host_of(self.rank);
                leader.advance(operation, host, &self.places, &mut self.local)
            }
            None => {
                let message = self.local.participant.try_recv(0);
                message.and_then(|message| message.map(Brought::from_message).transpose())
            }
        };
        match outcome {
            Ok(None) => Ok(None),
            Ok(Some(brought)) => {
                self.operation = None;
                brought.result().map(Some)
            }
            Err(error) => {
                self.operation = None;
                Err(error)
            }
        }
    }

    fn wait(&mut self, _: Option<Duration>) -> Result<Vec<Tensor>, CommError> {
        Err(self.unsupported())
    }

    fn abort_handle(&self) -> AbortHandle {
        self.local.abort_handle()
    }

    fn close(self: Box<Self>, timeout: Duration) -> Result<(), CommError> {
        Box::new(self.local).close(timeout)
    }
}
