//! The link of a pair of members: who dials, and which of several is used.

use std::time::Duration;

use super::error::NoLink;
use super::mutant::MemberMutant;
use crate::peer::{Peer, ProcessId};

/// The time before a dial that has failed is tried again: the first one, and the limit of its doubling.
const DIAL_AGAIN_FIRST: Duration = Duration::from_millis(10);
const DIAL_AGAIN_MAX: Duration = Duration::from_secs(1);

/// The name of a link, unique in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkName(pub u64);

/// The side of a pair that dials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialer {
    /// The process with the higher number.
    Higher,
    /// The head dials, and everybody else's pairs are dialled by the higher number: the head may be where nobody can reach it.
    HeadElseHigher,
}

/// The link between this process and another member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PairLink {
    remote: Peer,
    /// Whether this side dials.
    dials: bool,
    within: Duration,
    need: Option<Need>,
    /// The dial that is under way.
    dialling: Option<LinkName>,
    /// The link in use.
    used: Option<LinkName>,
    pub(super) mutant: MemberMutant,
}

/// A link that is needed and not there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Need {
    deadline: Duration,
    again_at: Option<Duration>,
    pause: Duration,
    failure: Option<String>,
}

/// An effect that the owner of a pair has to perform, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkStep {
    /// Dial the peer, and report the end of the handshake by [`PairLink::dialled`].
    Dial,
    /// Ask the peer to dial, by way of the head.
    AskToDial,
    /// Use this link from now on: it is authenticated.
    Use(LinkName),
    /// Close this link, if it was ever open.
    Close(LinkName),
    /// Tell whoever needs the link that there is none.
    Fail(NoLink),
}

impl Dialer {
    /// Whether the first of two processes dials the other.
    pub fn dials(self, process: ProcessId, other: ProcessId) -> bool {
        let with_head = process == ProcessId::HEAD || other == ProcessId::HEAD;
        match self {
            Dialer::HeadElseHigher if with_head => process == ProcessId::HEAD,
            Dialer::Higher | Dialer::HeadElseHigher => process > other,
        }
    }
}

impl PairLink {
    /// The pair of this process and another member, without a link. A link that is needed is made `within` this time, or
    /// there is none.
    pub fn new(local: ProcessId, remote: Peer, dialer: Dialer, within: Duration) -> Self {
        PairLink {
            remote,
            dials: dialer.dials(local, remote.process),
            within,
            need: None,
            dialling: None,
            used: None,
            mutant: MemberMutant::None,
        }
    }

    /// The link in use.
    pub fn used(&self) -> Option<LinkName> {
        self.used
    }

    /// Whether a frame that has arrived on this link is acted upon. Frames of other links are dropped.
    pub fn admits(&self, link: LinkName) -> bool {
        self.used == Some(link) || self.mutant == MemberMutant::AdmitsStrangers
    }

    /// A link is needed, because something waits to be sent, or because the peer asks for it.
    pub fn need(&mut self, now: Duration) -> Vec<LinkStep> {
        if self.used.is_some() || self.need.is_some() {
            return Vec::new();
        }
        self.need = Some(Need {
            deadline: now.saturating_add(self.within),
            again_at: None,
            pause: DIAL_AGAIN_FIRST,
            failure: None,
        });
        match self.dials {
            true => vec![LinkStep::Dial],
            false => vec![LinkStep::AskToDial],
        }
    }

    /// The peer, which does not dial, asks for a link.
    pub fn asked(&mut self, now: Duration) -> Vec<LinkStep> {
        match self.dials {
            true => self.need(now),
            // Nobody asks the side that does not dial.
            false => Vec::new(),
        }
    }

    /// A dial goes on under this name: the transport is connected, and the handshake has begun.
    pub fn dialling(&mut self, link: LinkName) {
        self.dialling = Some(link);
    }

    /// A dial has ended: with the peer that the handshake has named, or with a failure.
    pub fn dialled(&mut self, now: Duration, link: LinkName, found: Result<Peer, String>) -> Vec<LinkStep> {
        if self.dialling != Some(link) {
            return vec![LinkStep::Close(link)];
        }
        self.dialling = None;
        let failure = match found {
            Ok(found) if found == self.remote => return self.take(link),
            Ok(found) => format!("its address leads to {found}"),
            Err(failure) => failure,
        };
        let mut steps = vec![LinkStep::Close(link)];
        if let Some(need) = &mut self.need {
            need.again_at = Some(now.saturating_add(need.pause));
            need.pause = DIAL_AGAIN_MAX.min(need.pause * 2);
            need.failure = Some(failure);
            steps.extend(self.tick(now));
        }
        steps
    }

    /// A link from a peer was accepted, and the handshake has named the peer.
    pub fn accepted(&mut self, link: LinkName, found: Peer) -> Vec<LinkStep> {
        if self.dials || found != self.remote {
            return vec![LinkStep::Close(link)];
        }
        self.take(link)
    }

    /// A link has ended. The session goes on over the next one.
    pub fn lost(&mut self, link: LinkName) {
        if self.used == Some(link) {
            self.used = None;
        }
    }

    /// Performs what is due: another dial, or the end of the time.
    pub fn tick(&mut self, now: Duration) -> Vec<LinkStep> {
        let Some(need) = &mut self.need else {
            return Vec::new();
        };
        if now >= need.deadline {
            let failure = need.failure.take();
            (self.need, self.dialling) = (None, None);
            let (peer, within) = (self.remote, self.within);
            return vec![LinkStep::Fail(NoLink {
                peer,
                within,
                failure,
            })];
        }
        let is_due = need.again_at.is_some_and(|again| now >= again);
        if is_due {
            need.again_at = None;
        }
        is_due.then_some(LinkStep::Dial).into_iter().collect()
    }

    /// The next moment at which [`tick`](Self::tick) has something to do.
    pub fn deadline(&self) -> Option<Duration> {
        let need = self.need.as_ref()?;
        Some(
            need.again_at
                .map_or(need.deadline, |again| again.min(need.deadline)),
        )
    }

    /// Uses a link instead of the one before, which the peer has given up, or else it would not have made another one.
    fn take(&mut self, link: LinkName) -> Vec<LinkStep> {
        self.need = None;
        let before = self.used.replace(link);
        let closes = before.filter(|_| self.mutant != MemberMutant::KeepsBothLinks);
        let mut steps: Vec<_> = closes.map(LinkStep::Close).into_iter().collect();
        steps.push(LinkStep::Use(link));
        steps
    }
}
