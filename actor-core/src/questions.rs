//! The questions that a process has asked others, by their numbers.

use selvedge_cluster::id_map::IdMap;
use selvedge_cluster::peer::Peer;

/// The open questions of one service, each with `W`, which gets the answer.
pub(crate) struct Questions<W> {
    open: IdMap<u64, (Peer, W)>,
    numbers: u64,
}

impl<W> Default for Questions<W> {
    fn default() -> Self {
        Questions {
            open: IdMap::new(),
            numbers: 0,
        }
    }
}

impl<W> Questions<W> {
    /// Takes note of a question, and returns its number.
    pub(crate) fn begin(&mut self, to: Peer, waiter: W) -> u64 {
        self.numbers += 1;
        self.open.insert(self.numbers, (to, waiter));
        self.numbers
    }

    /// Ends a question, if this process was asked it.
    pub(crate) fn end(&mut self, from: Peer, question: u64) -> Option<W> {
        self.open.get(&question).filter(|(asked, _)| *asked == from)?;
        self.forget(question)
    }

    /// Gives a question up.
    pub(crate) fn forget(&mut self, question: u64) -> Option<W> {
        self.open.remove(&question).map(|(_, waiter)| waiter)
    }

    /// Ends the questions to a process, in their order.
    pub(crate) fn extract_of(&mut self, peer: Peer) -> Vec<W> {
        let ended = self.open.extract(|_, (asked, _)| *asked == peer);
        ended.into_iter().map(|(_, (_, waiter))| waiter).collect()
    }

    /// Ends all questions, and gives none of their numbers again.
    pub(crate) fn extract_all(&mut self) -> Vec<W> {
        let ended = self.open.extract(|_, _| true);
        ended.into_iter().map(|(_, (_, waiter))| waiter).collect()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.open.values().count()
    }
}
