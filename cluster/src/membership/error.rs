//! Errors of the membership.

use std::time::Duration;

use thiserror::Error;

use crate::peer::{Peer, ProcessId};

/// The reason why the head refuses a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The incarnation was declared dead.
    #[error("{0} was declared dead: it has to end; its process may join again in another life")]
    Buried(Peer),
    /// No process has this number, or the process was removed, or it claims a life that it was not given.
    #[error("{0} is no member under this name: let it join as a new process")]
    Unknown(ProcessId),
    /// The process has a life already.
    #[error("{0} is alive: it starts again once it is dead")]
    StillAlive(Peer),
    /// The process that is to watch another one is no member.
    #[error("{0} is no member, so it watches nobody: let the process join when its agent has joined")]
    NoAgent(Peer),
    /// All numbers are given.
    #[error("all numbers of processes and lives are given: start another cluster")]
    NoNumbers,
}

/// The reason why a notice cannot be applied to a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "the head told of change {found} after change {last}, so some are missing: end the link to the head, and join again"
)]
pub struct MissingNotice {
    /// The last change that is known.
    pub last: u64,
    /// The change of the notice.
    pub found: u64,
}

/// The reason why there is no link that was needed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no link to {peer} within {within:?}{}", because(.failure.as_deref()))]
pub struct NoLink {
    /// The peer.
    pub peer: Peer,
    /// The time in which a link has to be made.
    pub within: Duration,
    /// The last failure of a dial, if one has failed.
    pub failure: Option<String>,
}

fn because(failure: Option<&str>) -> String {
    failure.map(|failure| format!(": {failure}")).unwrap_or_default()
}
