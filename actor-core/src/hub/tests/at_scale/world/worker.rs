//! Workers, and whom they know.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use selvedge_cluster::peer::Peer;

use super::driver::WatchedWorker;
use crate::hub::Hub;
use crate::hub::notice::Notice;
use crate::hub::post::Post;

/// What a worker knows of the others.
pub(super) enum KnownMembers {
    /// By their places. There are many workers, so each takes little.
    Noted(Vec<LastLife>),
    Hub(Arc<Hub>),
}

/// The last life of a process of which another one has heard: twice its number, and one if it is over.
#[derive(Clone, Copy, Default)]
pub(super) struct LastLife(u32);

impl LastLife {
    pub(super) fn new(peer: Peer, is_over: bool) -> Self {
        LastLife(peer.incarnation.0 * 2 + u32::from(is_over))
    }

    pub(super) fn lives(self) -> bool {
        self.0 != 0 && self.0.is_multiple_of(2)
    }
}

/// A living process.
pub(super) struct ScaleWorker {
    pub(super) peer: Peer,
    pub(super) known: KnownMembers,
    /// The notices that are on their way to it.
    pub(super) unread: usize,
    /// The arrival of the last thing that was sent, in each direction.
    pub(super) last_down: Duration,
    pub(super) last_up: Duration,
}

/// The place of a process: the head has number 1.
pub(super) fn place(peer: Peer) -> usize {
    peer.process.number() as usize - 2
}

impl ScaleWorker {
    /// Takes a notice. Returns the promise that it breaks.
    pub(super) fn hear(&mut self, notice: Notice) -> Option<String> {
        let known = match &mut self.known {
            KnownMembers::Hub(hub) => {
                hub.notice(notice, None);
                return None;
            }
            KnownMembers::Noted(known) => known,
        };
        let (peer, is_over) = match notice {
            Notice::Joined(peer, _) => (peer, false),
            Notice::Died(peer, _) => (peer, true),
            _ => return None,
        };
        // A life is heard of once, is over once, and is followed by later ones.
        let (before, life) = (&mut known[place(peer)], LastLife::new(peer, is_over));
        let is_wrong = life.0 <= before.0;
        *before = life;
        is_wrong.then(|| format!("{} hears of {peer} again", self.peer))
    }

    /// How the peers that this process knows differ from the members.
    pub(super) fn differs(&self, members: &BTreeMap<Peer, WatchedWorker>) -> Option<String> {
        let is_same = match &self.known {
            KnownMembers::Hub(hub) => {
                let others = members.keys().filter(|it| **it != self.peer);
                hub.peers().iter().skip(1).eq(others)
            }
            KnownMembers::Noted(known) => {
                let as_known = |(peer, _): (&Peer, &WatchedWorker)| {
                    *peer == self.peer || known[place(*peer)].0 == LastLife::new(*peer, false).0
                };
                let living = known.iter().filter(|life| life.lives()).count();
                members.iter().all(as_known) && living + 1 == members.len()
            }
        };
        (!is_same).then(|| format!("{} knows others than the members", self.peer))
    }
}
