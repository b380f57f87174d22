//! The way between the leaders of hosts, and the places of ranks.

use crate::error::CommError;

/// The way from the leader of one host to those of the others: each operation takes one share of bytes from each host to every
/// other one. Whoever receives a share rings the doorbell of the leader's lane.
pub trait HostExchange: Send {
    /// Sends this host's share of the next operation to all other hosts. Never waits.
    ///
    /// # Errors
    /// [`CommError`] if the group has ended.
    fn post(&mut self, share: Vec<u8>) -> Result<(), CommError>;

    /// Returns the shares of all other hosts for the operation that was posted last, in the order of hosts; `None` until all
    /// of them are there.
    ///
    /// # Errors
    /// [`CommError`] if the group has ended.
    fn poll(&mut self) -> Result<Option<Vec<Vec<u8>>>, CommError>;
}

/// The hosts of a group's ranks. Hosts are numbered in the order of their first ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPlaces {
    /// By rank: the number of its host.
    hosts: Vec<usize>,
}

impl HostPlaces {
    /// The places of ranks on hosts with these names, by rank.
    pub fn of<H: PartialEq>(names: &[H]) -> Self {
        let mut known: Vec<&H> = Vec::new();
        let mut number = |name| match known.iter().position(|known| *known == name) {
            Some(number) => number,
            None => {
                known.push(name);
                known.len() - 1
            }
        };
        HostPlaces {
            hosts: names.iter().map(&mut number).collect(),
        }
    }

    /// The number of ranks.
    pub fn ranks(&self) -> usize {
        self.hosts.len()
    }

    /// The number of hosts.
    pub fn hosts(&self) -> usize {
        self.hosts.iter().max().map_or(0, |last| last + 1)
    }

    /// The host of a rank; 0 for a rank that does not exist.
    pub fn host_of(&self, rank: usize) -> usize {
        self.hosts.get(rank).copied().unwrap_or_default()
    }

    /// The ranks on a host, in order. The first is the leader.
    pub fn ranks_on(&self, host: usize) -> Vec<usize> {
        let there = self.hosts.iter().enumerate().filter(|(_, of)| **of == host);
        there.map(|(rank, _)| rank).collect()
    }
}
