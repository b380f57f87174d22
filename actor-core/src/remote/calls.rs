//! The table of calls, without locks, clocks or letters: the calls that this process has asked of others, and those that
//! others have asked of it.
//!
//! A call that was asked ends exactly once: it is answered by the peer it was asked of, abandoned by its caller, or lost
//! with its peer. Whatever else arrives under its number is ignored.
//!
//! - `CALLS-1`: the waiter of each asked call leaves the table once, with the first of answer, abandonment and death.
//! - `CALLS-2`: an answer counts only from the incarnation that was asked.
//! - `CALLS-3`: a peer's death ends its calls in one step. A call is lost as [`Ran::Never`] only if its letter was never
//!   handed to a link.
//! - `CALLS-4`: a served call runs once while it is in the table, and is answered only if nobody cancelled it.

use selvedge_cluster::id_map::IdMap;
use selvedge_cluster::peer::Peer;
use selvedge_cluster::session::Outcome;
use serde::{Deserialize, Serialize};

use crate::call::remote_error::Ran;

/// The number of a call, unique in the process that asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct CallId(pub(crate) u64);

selvedge_cluster::id_key!(CallId as u64: |call| call.0);

/// The calls that this process has asked of others. `W` is who waits for the answer.
#[derive(Debug)]
pub(crate) struct Asked<W> {
    next: u64,
    calls: IdMap<CallId, Question<W>>,
}

#[derive(Debug)]
struct Question<W> {
    peer: Peer,
    /// The number of the letter, once it was sent.
    letter: Option<u64>,
    waiter: W,
}

impl<W> Default for Asked<W> {
    fn default() -> Self {
        Asked {
            next: 1,
            calls: IdMap::new(),
        }
    }
}

impl<W> Asked<W> {
    /// A number that no other call has.
    pub(crate) fn number(&mut self) -> CallId {
        let id = CallId(self.next);
        self.next += 1;
        id
    }

    /// Lists a call before its letter is sent, because the answer may overtake the return from sending.
    pub(crate) fn ask(&mut self, peer: Peer, waiter: W) -> CallId {
        let id = self.number();
        let letter = None;
        self.calls.insert(id, Question { peer, letter, waiter });
        id
    }

    /// The call's letter was sent under this number.
    pub(crate) fn sent(&mut self, id: CallId, letter: u64) {
        if let Some(question) = self.calls.get_mut(&id) {
            question.letter = Some(letter);
        }
    }

    /// A peer has answered; returns who waits. `None` for an answer that nobody waits for.
    pub(crate) fn answered(&mut self, from: Peer, id: CallId) -> Option<W> {
        let question = self.calls.remove(&id)?;
        if question.peer == from {
            return Some(question.waiter);
        }
        self.calls.insert(id, question);
        None
    }

    /// The caller does not want the answer, or the call could not be sent; returns the peer that was asked, and who waits.
    pub(crate) fn abandon(&mut self, id: CallId) -> Option<(Peer, W)> {
        let question = self.calls.remove(&id)?;
        Some((question.peer, question.waiter))
    }

    /// A peer has died. `fates` are the outcomes of its unacknowledged letters, in the order of the letters' numbers.
    pub(crate) fn died(&mut self, peer: Peer, fates: &[(u64, Outcome)]) -> Vec<(W, Ran)> {
        let lost = self.calls.extract(|_, question| question.peer == peer);
        let lost = lost.into_iter().map(|(_, question)| {
            let place = |letter| fates.binary_search_by_key(&letter, |(number, _)| *number).ok();
            let fate = question.letter.and_then(place).and_then(|place| fates.get(place));
            let ran = match fate {
                Some((_, Outcome::NotSent)) => Ran::Never,
                _ => Ran::Unknown,
            };
            (question.waiter, ran)
        });
        lost.collect()
    }

    /// Ends all calls; returns the peers that were asked, and who waits.
    pub(crate) fn take_all(&mut self) -> Vec<(CallId, Peer, W)> {
        let calls = std::mem::take(&mut self.calls).into_iter();
        calls
            .map(|(id, question)| (id, question.peer, question.waiter))
            .collect()
    }

    /// The number of calls that wait for an answer.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }
}

/// The calls that other processes have asked of this one. `C` is the means to cancel one.
#[derive(Debug)]
pub(crate) struct Served<C> {
    calls: IdMap<(Peer, CallId), C>,
}

impl<C> Default for Served<C> {
    fn default() -> Self {
        Served { calls: IdMap::new() }
    }
}

impl<C> Served<C> {
    /// Lists a call; `false` if the peer has a call of this number here already, which must not run twice.
    pub(crate) fn begin(&mut self, from: Peer, id: CallId, cancel: C) -> bool {
        let is_new = !self.calls.contains_key(&(from, id));
        if is_new {
            self.calls.insert((from, id), cancel);
        }
        is_new
    }

    /// The function has ended; returns whether the peer waits for the answer.
    pub(crate) fn end(&mut self, from: Peer, id: CallId) -> bool {
        self.calls.remove(&(from, id)).is_some()
    }

    /// The caller does not want the answer; returns the means to cancel the call.
    pub(crate) fn cancel(&mut self, from: Peer, id: CallId) -> Option<C> {
        self.calls.remove(&(from, id))
    }

    /// The means to cancel a call, which stays in the table.
    pub(crate) fn find(&self, from: Peer, id: CallId) -> Option<C>
    where
        C: Clone,
    {
        self.calls.get(&(from, id)).cloned()
    }

    /// A peer has died; returns the means to cancel its calls.
    pub(crate) fn died(&mut self, peer: Peer) -> Vec<C> {
        let orphans = self.calls.extract(|(from, _), _| *from == peer);
        orphans.into_iter().map(|(_, cancel)| cancel).collect()
    }

    /// The means to cancel all calls, which stay in the table.
    pub(crate) fn tokens(&self) -> Vec<C>
    where
        C: Clone,
    {
        self.calls.values().cloned().collect()
    }

    /// Ends all calls; returns the means to cancel them.
    pub(crate) fn take_all(&mut self) -> Vec<C> {
        std::mem::take(&mut self.calls).into_values().collect()
    }

    /// The number of calls that run or are to run.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod calls_tests;
