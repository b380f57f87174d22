//! The questions about names that this process has asked.

use std::sync::Arc;

use selvedge_cluster::id_map::IdMap;
use selvedge_cluster::peer::Peer;
use selvedge_objects::names::{NameAnswer, NamedObject};

use crate::promise::Promise;
use crate::reference::handle::Handle;

/// The end of a question.
pub(super) enum NameReply {
    Answered(NameAnswer),
    Listed(Vec<NamedObject>),
    /// The owner's answer: the object, if it is held there.
    Taken(Option<Arc<Handle>>),
    /// The process that was asked is dead.
    Died,
}

/// The questions about names that this process has asked, by their numbers.
#[derive(Default)]
pub(super) struct NameQuestions {
    open: IdMap<u64, (Peer, Promise<NameReply>)>,
    numbers: u64,
    is_stopped: bool,
}

impl NameQuestions {
    /// Takes note of a question. Returns its number; `None` if the process ends, which breaks the promise.
    pub(super) fn begin(&mut self, to: Peer, asker: Promise<NameReply>) -> Option<u64> {
        if self.is_stopped {
            return None;
        }
        self.numbers += 1;
        self.open.insert(self.numbers, (to, asker));
        Some(self.numbers)
    }

    /// Ends a question, if this process was asked it.
    pub(super) fn end(&mut self, from: Peer, question: u64) -> Option<Promise<NameReply>> {
        let (asked, _) = self.open.get(&question)?;
        if *asked != from {
            return None;
        }
        self.open.remove(&question).map(|(_, asker)| asker)
    }

    /// Gives a question up: its asker waits no more.
    pub(super) fn forget(&mut self, question: u64) {
        self.open.remove(&question);
    }

    /// Ends the questions to a process.
    pub(super) fn died(&mut self, peer: Peer) -> Vec<Promise<NameReply>> {
        let ended = self.open.extract(|_, (asked, _)| *asked == peer);
        ended.into_iter().map(|(_, (_, asker))| asker).collect()
    }

    /// Ends all questions: the process ends.
    pub(super) fn stop(&mut self) -> IdMap<u64, (Peer, Promise<NameReply>)> {
        self.is_stopped = true;
        std::mem::take(&mut self.open)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.open.values().count()
    }
}
