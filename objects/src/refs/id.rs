//! Names of references.

use std::fmt;

use selvedge_cluster::id_map::IdKey;
use selvedge_cluster::peer::Peer;
use serde::{Deserialize, Serialize};

/// The name of an object that can be referenced. The creator chooses it, before the owner has heard of the object.
///
/// The number belongs to the pair of creator and owner, and counts what that creator registers with that owner. So the
/// owner can tell an object that is still to come from one that was freed, and remembers only one number for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RefId {
    /// The process that holds the object.
    pub owner: Peer,
    /// The process that asked for the object.
    pub creator: Peer,
    /// The creator's number for it, from 1.
    pub number: u64,
}

impl IdKey for RefId {
    type Number = (u128, u128);

    fn number(self) -> (u128, u128) {
        ((self.owner, self.creator).number(), self.number.into())
    }
}

// Without the lives of the processes, which tell a user nothing.
impl fmt::Display for RefId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (creator, owner) = (self.creator.process, self.owner.process);
        write!(f, "reference {} of {creator}", self.number)?;
        match creator == owner {
            true => Ok(()),
            false => write!(f, " at {owner}"),
        }
    }
}

/// One entry of an owner's list: a registration of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Fork {
    /// The user has asked for it; the number is the user's, in the order of its questions to this owner.
    Asked(u64),
    /// The owner gave it along with a reference that the owner passed; the number is the owner's.
    Given(u64),
}

impl IdKey for Fork {
    type Number = u128;

    const BITS: u32 = 1 + u64::BITS;

    fn number(self) -> u128 {
        match self {
            Fork::Asked(number) => number.into(),
            Fork::Given(number) => 1 << u64::BITS | u128::from(number),
        }
    }
}

impl fmt::Display for Fork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fork::Asked(number) => write!(f, "its registration {number}"),
            Fork::Given(number) => write!(f, "the owner's registration {number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registrations_are_ordered_as_their_numbers() {
        let asked = [0, 7, u64::MAX].map(Fork::Asked);
        let given = [0, 7, u64::MAX].map(Fork::Given);
        let forks = [asked, given].concat();
        assert!(forks.is_sorted_by(|one, next| one < next && one.number() < next.number()));
    }
}
