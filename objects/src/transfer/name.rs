//! Names of objects that several stores may have, and of their copies.

use selvedge_cluster::id_map::IdKey;
use selvedge_cluster::peer::Peer;
use serde::{Deserialize, Serialize};

/// The name of an object in all stores. A process never uses a number twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CopyName {
    /// The process that has given the name: the one that has filled the first copy, or the owner.
    pub maker: Peer,
    /// The number that it has given.
    pub number: u64,
}

impl IdKey for CopyName {
    type Number = u128;

    const BITS: u32 = Peer::BITS + u64::BITS;

    fn number(self) -> u128 {
        (self.maker, self.number).number()
    }
}

/// The length of an object and the checksum of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CopyFacts {
    /// The length.
    pub bytes: u64,
    /// The CRC-32 of the bytes.
    pub checksum: u32,
}

/// A copy of an object: the host agent in whose store it is, and the attempt by which it came there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CopyAt {
    /// The host agent.
    pub agent: Peer,
    /// The attempt, as the agent counts. An agent that has lost a copy and pulls it again has another one.
    pub attempt: u64,
}

impl IdKey for CopyAt {
    type Number = u128;

    const BITS: u32 = Peer::BITS + u64::BITS;

    fn number(self) -> u128 {
        (self.agent, self.attempt).number()
    }
}
