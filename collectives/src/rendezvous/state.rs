//! The state that the ranks of a group share within a process.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use selvedge_channels::memory::deaths::DeathCallback;
use selvedge_channels::memory::process::Process;
use selvedge_channels::{Doorbell, Provider, Segment, Waiting};

use super::words::{GroupEnd, GroupWords};
use crate::error::CommError;

/// Blocks by rank and index, with the nonce of the segment.
type BlocksOfRanks = HashMap<(usize, usize), (u64, Segment)>;

/// The state that the ranks of a group share within a process.
#[derive(Debug)]
pub(crate) struct GroupState {
    pub(crate) words: GroupWords,
    pub(crate) bells: Vec<Doorbell>,
    /// The source of the memory of blocks.
    pub(crate) provider: Provider,
    /// The blocks of ranks that live in this process, which need not be mapped again.
    pub(super) blocks: Mutex<BlocksOfRanks>,
    /// The ranks that were taken from this object, whose blocks are in `blocks`.
    pub(super) here: Mutex<Vec<usize>>,
    pub(crate) waiting: Waiting,
    pub(crate) timeout: Option<Duration>,
    /// True if processes claim ranks, and this group watches the liveness of those processes itself.
    pub(crate) watches: bool,
}

impl GroupState {
    /// Creates the state with its defaults: waits have no time limit, and the owner of the memory watches the
    /// processes.
    pub(super) fn new(words: GroupWords, bells: Vec<Doorbell>, provider: Provider) -> Self {
        let waiting = Waiting::auto(words.layout.ranks);
        GroupState {
            words,
            bells,
            provider,
            blocks: Mutex::default(),
            here: Mutex::default(),
            waiting,
            timeout: None,
            watches: false,
        }
    }

    pub(crate) fn ranks(&self) -> usize {
        self.words.layout.ranks
    }

    /// Returns an error if the group does not have this rank.
    ///
    /// # Errors
    /// [`CommError::NoSuchRank`].
    pub(crate) fn has(&self, rank: usize) -> Result<(), CommError> {
        let ranks = self.ranks();
        if rank < ranks {
            Ok(())
        } else {
            Err(CommError::NoSuchRank { rank, ranks })
        }
    }

    /// Records that a rank was taken from this object.
    pub(super) fn set_here(&self, rank: usize) {
        self.here.lock().push(rank);
    }

    /// Whether a rank was taken from this same object, so that its blocks outlive the rank.
    pub(super) fn is_here(&self, rank: usize) -> bool {
        self.here.lock().contains(&rank)
    }

    /// Keeps the segment of a block for the other ranks of this process.
    pub(super) fn keep_block(&self, rank: usize, index: usize, nonce: u64, segment: Segment) {
        self.blocks.lock().insert((rank, index), (nonce, segment));
    }

    /// Returns the segment of a block of a rank of this process; `None` for another segment than the one with `nonce`.
    pub(super) fn kept_block(&self, rank: usize, index: usize, nonce: u64) -> Option<Segment> {
        let blocks = self.blocks.lock();
        let (kept, segment) = blocks.get(&(rank, index))?;
        (*kept == nonce).then(|| segment.clone())
    }

    /// Wakes all ranks, also one whose ringer has died before it woke the rank.
    fn rouse_all(&self) {
        self.bells.iter().for_each(Doorbell::rouse);
    }

    pub(crate) fn ring_all(&self) {
        self.bells.iter().for_each(Doorbell::ring);
    }

    /// Ends the group and wakes all ranks.
    pub(crate) fn end(&self, end: GroupEnd) {
        self.words.set_end(end);
        self.ring_all();
    }

    /// Returns the process that has a rank; `None` before that, and after the rank has left.
    pub(super) fn living(&self, rank: usize) -> Option<Process> {
        let holder = self.words.holder(rank).ok().flatten();
        holder
            .filter(|holder| !holder.has_left)
            .map(|holder| holder.process)
    }

    /// Returns the callback for the end of a process with its rank still taken: the group ends with that rank as the
    /// cause. A rank that left before its process ended has failed no one.
    pub(super) fn on_death(self: &Arc<Self>, rank: usize, process: Process) -> DeathCallback {
        let group = Arc::clone(self);
        let pid = process.pid;
        Arc::new(move || match group.words.has_left(rank) {
            Ok(true) => group.rouse_all(),
            _ => {
                group.words.set_end(GroupEnd::Died { rank, pid });
                group.rouse_all();
            }
        })
    }

    /// Returns an error with the cause if the group has ended.
    pub(crate) fn ended(&self) -> Result<(), CommError> {
        match self.words.end()? {
            None => Ok(()),
            Some(GroupEnd::Died { rank, pid }) => Err(CommError::PeerLost { rank, pid }),
            Some(GroupEnd::Aborted { rank }) => Err(CommError::Aborted { rank }),
        }
    }
}
