//! The shutdown of a process: it lets go of everything, waits until others have let go, and names what is left.
//!
//! References are dropped as soon as the protocol allows it: a pending one after its confirmation, a parent after its
//! children have accepted. Objects without users are freed at once, others when their last user has gone. Nobody gets the value of
//! an object here any more: a user that waits for one would not let go of it.

use std::time::Duration;

use super::{Action, Leak, Refs, Stage};

/// A shutdown.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ending {
    deadline: Duration,
    /// Whether the result was told.
    is_over: bool,
}

impl Ending {
    /// The time at which a shutdown ends that has not ended.
    pub(super) fn due(&self) -> Option<Duration> {
        Some(self.deadline).filter(|_| !self.is_over)
    }
}

impl Refs {
    /// Begins the shutdown, once.
    pub(super) fn end(&mut self, now: Duration, deadline: Duration) {
        if self.ending.is_some() {
            return;
        }
        let is_over = false;
        self.ending = Some(Ending { deadline, is_over });
        self.abandon(|_| true);
        for id in self.held.keys().copied().collect::<Vec<_>>() {
            if let Some(held) = self.held.get_mut(&id) {
                held.handles = 0;
            }
            self.release_if_unused(now, id);
        }
        for id in self.owned.keys().copied().collect::<Vec<_>>() {
            self.let_go_of_owned(id);
        }
        // Nothing follows that messages could share a frame with.
        for peer in self.links.iter().map(|(peer, _)| *peer).collect::<Vec<_>>() {
            self.flush(now, peer);
        }
    }

    /// Tells the result of a shutdown as soon as nothing is left, or its time is over.
    pub(super) fn look_for_the_end(&mut self, now: Duration) {
        let Some(deadline) = self.ending.as_ref().and_then(Ending::due) else {
            return;
        };
        if !self.is_empty() && now < deadline {
            return;
        }
        let leaks = self.leaks();
        self.actions.push(Action::Ended { leaks });
        if let Some(ending) = &mut self.ending {
            ending.is_over = true;
        }
    }

    fn is_empty(&self) -> bool {
        let is_idle = |link: &super::link::Link| link.waiting() + link.unanswered_questions() == 0;
        // An object that is made during the shutdown concerns no other process.
        let is_own = |owned: &super::Owned| owned.forks.is_empty();
        self.owned.values().all(is_own) && self.held.is_empty() && self.links.values().all(is_idle)
    }

    /// Everything that keeps this process from ending cleanly.
    fn leaks(&self) -> Vec<Leak> {
        let mut leaks = Vec::new();
        for (id, owned) in &self.owned {
            let users = owned.forks.iter();
            let listed = users.flat_map(|(user, forks)| forks.iter().map(move |fork| (*user, *fork)));
            leaks.extend(listed.map(|(user, fork)| Leak::Listed { id: *id, user, fork }));
        }
        for (id, held) in &self.held {
            let is_pending = matches!(held.stage, Stage::Pending(_));
            leaks.extend(is_pending.then_some(Leak::Unconfirmed(*id)));
            let children = held.children.iter().map(|(fork, child)| (*fork, *child));
            leaks.extend(children.map(|(fork, child)| Leak::Unaccepted { id: *id, child, fork }));
        }
        for (peer, link) in self.links.iter() {
            let (peer, questions) = (*peer, link.unanswered_questions());
            leaks.extend((questions > 0).then_some(Leak::Unanswered { peer, questions }));
        }
        leaks
    }
}
