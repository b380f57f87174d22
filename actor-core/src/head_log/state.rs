//! The outcome of a head's decisions.

use std::collections::BTreeMap;

use selvedge_cluster::peer::{Incarnation, Peer, ProcessId};
use selvedge_objects::names::{NameChange, NamedObject};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::record::{HeadRecord, MemberPart};

/// The knowledge of a head that outlives it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeadState {
    /// The last life of the head; 0 before the first one.
    pub(crate) head: Incarnation,
    /// The number of the next process.
    pub(crate) next: u32,
    pub(crate) members: BTreeMap<ProcessId, LoggedMember>,
    /// The objects that have names, by their names.
    pub(crate) names: BTreeMap<String, NamedObject>,
}

/// A member, as a head's log has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoggedMember {
    pub(crate) incarnation: Incarnation,
    pub(crate) part: MemberPart,
    pub(crate) name: String,
    /// The name of the host, once the member has told it.
    pub(crate) host: Option<String>,
}

/// The reason that a decision cannot follow those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum OutOfPlace {
    #[error("the head is in life {}, and begins life {}", .was.0, .begins.0)]
    Life { was: Incarnation, begins: Incarnation },
    #[error("{0} has a number that was given before")]
    NumberUsed(Peer),
    #[error("{0} is no member")]
    NoMember(Peer),
    #[error("it has a summary, and so does its beginning")]
    SecondSummary,
}

impl HeadState {
    /// The state before the first life of a head.
    pub(crate) fn new() -> Self {
        HeadState {
            head: Incarnation(0),
            next: ProcessId::HEAD.number() + 1,
            members: BTreeMap::new(),
            names: BTreeMap::new(),
        }
    }

    /// Applies a decision.
    ///
    /// # Errors
    /// [`OutOfPlace`]: nothing has changed.
    pub(crate) fn step(&mut self, record: HeadRecord) -> Result<(), OutOfPlace> {
        match record {
            HeadRecord::Summary(state) => {
                if *self != HeadState::new() {
                    return Err(OutOfPlace::SecondSummary);
                }
                *self = state;
            }
            HeadRecord::Began(begins) => {
                let was = self.head;
                if was.0.checked_add(1) != Some(begins.0) {
                    return Err(OutOfPlace::Life { was, begins });
                }
                self.head = begins;
                self.members.retain(|_, member| member.part == MemberPart::Guest);
            }
            HeadRecord::Joined { peer, part, name } => {
                let number = peer.process.number();
                let after = number.checked_add(1).filter(|_| number >= self.next);
                self.next = after.ok_or(OutOfPlace::NumberUsed(peer))?;
                let member = LoggedMember {
                    incarnation: peer.incarnation,
                    part,
                    name,
                    host: None,
                };
                self.members.insert(peer.process, member);
            }
            HeadRecord::Located { peer, host } => self.member(peer)?.host = Some(host),
            HeadRecord::Died(peer) => {
                self.member(peer)?;
                self.members.remove(&peer.process);
            }
            HeadRecord::Name(NameChange::Named(object)) => {
                self.names.insert(object.name.clone(), object);
            }
            HeadRecord::Name(NameChange::Unnamed { name }) => {
                self.names.remove(&name);
            }
        }
        Ok(())
    }

    fn member(&mut self, peer: Peer) -> Result<&mut LoggedMember, OutOfPlace> {
        let member = self.members.get_mut(&peer.process);
        let member = member.filter(|member| member.incarnation == peer.incarnation);
        member.ok_or(OutOfPlace::NoMember(peer))
    }

    /// The members that play this part.
    pub(crate) fn of_part(&self, part: MemberPart) -> impl Iterator<Item = (Peer, &LoggedMember)> {
        let members = self.members.iter().filter(move |(_, member)| member.part == part);
        members.map(|(process, member)| {
            let (process, incarnation) = (*process, member.incarnation);
            (Peer { process, incarnation }, member)
        })
    }
}
