//! The membership as a process other than the head knows it.

use std::collections::BTreeMap;

use super::error::MissingNotice;
use super::mutant::MemberMutant;
use super::notice::{Change, Notice};
use crate::peer::{Incarnation, Peer, ProcessId};

/// The members as the head has told them so far.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct View {
    epoch: u64,
    /// The last life of each process that was told, and whether it is alive.
    lives: BTreeMap<ProcessId, (Incarnation, bool)>,
    pub(super) mutant: MemberMutant,
}

/// The standing of an incarnation in a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// A member.
    Member,
    /// Declared dead. Refuse whatever it sends.
    Buried,
    /// Nothing is known: it has joined a moment ago, or had died before this process joined. Ask the head, and do not act on
    /// its frames before the answer.
    Unknown,
}

impl View {
    /// The view of a process that was welcomed after so many changes.
    pub fn new(epoch: u64, members: &[Peer]) -> Self {
        let lives = members
            .iter()
            .map(|peer| (peer.process, (peer.incarnation, true)));
        View {
            epoch,
            lives: lives.collect(),
            mutant: MemberMutant::None,
        }
    }

    /// The number of the last change that is known.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Applies a notice. Returns whether it told something new.
    ///
    /// # Errors
    /// [`MissingNotice`]: notices before this one have not come. Nothing has changed.
    pub fn apply(&mut self, notice: &Notice) -> Result<bool, MissingNotice> {
        if notice.epoch <= self.epoch && self.mutant != MemberMutant::AppliesAgain {
            return Ok(false);
        }
        if notice.epoch > self.epoch + 1 {
            let (last, found) = (self.epoch, notice.epoch);
            return Err(MissingNotice { last, found });
        }
        self.epoch = notice.epoch;
        let is_alive = notice.change == Change::Joined;
        self.lives
            .insert(notice.peer.process, (notice.peer.incarnation, is_alive));
        Ok(true)
    }

    /// The standing of an incarnation.
    pub fn standing(&self, peer: Peer) -> Standing {
        match self.lives.get(&peer.process) {
            Some((incarnation, true)) if *incarnation == peer.incarnation => Standing::Member,
            Some((incarnation, _)) if *incarnation >= peer.incarnation => Standing::Buried,
            Some(_) | None => Standing::Unknown,
        }
    }

    /// The members in the order of their numbers.
    pub fn members(&self) -> impl Iterator<Item = Peer> {
        let living = self.lives.iter().filter(|(_, (_, is_alive))| *is_alive);
        living.map(|(process, (incarnation, _))| Peer {
            process: *process,
            incarnation: *incarnation,
        })
    }
}
