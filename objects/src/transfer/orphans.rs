//! Copies whose makers are dead, as their agents say, of objects that their owner does not know, or not yet.

use selvedge_cluster::id_map::{IdMap, IdSet};
use selvedge_cluster::peer::Peer;

use super::name::CopyName;

/// The number of copies without an object that a process may ask about at a time.
pub(super) const ORPHANS_MAX: usize = 1 << 16;

/// The agents that ask about copies, and wait for the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Orphans {
    askers: IdMap<CopyName, IdSet<Peer>>,
    /// The number of copies about which each agent asks.
    counts: IdMap<Peer, usize>,
}

impl Orphans {
    /// An agent asks about a copy. Returns false if it has asked about too many others.
    pub(super) fn ask(&mut self, by: Peer, name: CopyName) -> bool {
        let is_known = self.askers.get(&name).is_some_and(|askers| askers.contains(&by));
        let count = self.counts.get(&by).copied().unwrap_or_default();
        if is_known || count >= ORPHANS_MAX {
            return is_known;
        }
        self.counts.insert(by, count + 1);
        self.askers.or_default(name).insert(by)
    }

    /// The object of a copy is known from now on.
    pub(super) fn remove(&mut self, name: CopyName) {
        let askers = self.askers.remove(&name).unwrap_or_default();
        askers.iter().for_each(|asker| self.uncount(*asker));
    }

    fn uncount(&mut self, asker: Peer) {
        if let Some(count) = self.counts.get_mut(&asker) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&asker);
            }
        }
    }

    /// A process is dead. Returns the copies of which nobody will hear any more, since it was their maker, with the agents that ask.
    pub(super) fn bury(&mut self, peer: Peer) -> Vec<(CopyName, Peer)> {
        for askers in self.askers.values_mut() {
            askers.remove(&peer);
        }
        self.counts.remove(&peer);
        let is_over = |name: &CopyName, askers: &IdSet<Peer>| name.maker == peer || askers.is_empty();
        let over = self.askers.extract(is_over);
        let over = over
            .iter()
            .flat_map(|(name, askers)| askers.iter().map(|asker| (*name, *asker)));
        let over: Vec<_> = over.collect();
        over.iter().for_each(|(_, asker)| self.uncount(*asker));
        over
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.askers.is_empty() && self.counts.is_empty()
    }
}
