//! The requests of other processes, in the order in which they came. Plain data.
//!
//! A request is served as soon as the references in its value have come to rest and its channel exists; until then, later
//! requests of its process to the channel wait behind it.

use std::collections::VecDeque;

use selvedge_cluster::id_map::{IdKey, IdMap};
use selvedge_cluster::peer::Peer;
use selvedge_objects::refs::RefId;

/// The number of requests of one process that may wait here.
const WAITING_MAX: usize = 1 << 16;

/// The queue of one process's requests to one channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct InboxKey {
    pub(super) channel: RefId,
    pub(super) from: Peer,
}

impl IdKey for InboxKey {
    type Number = (u128, u128);

    fn number(self) -> (u128, u128) {
        let (makers, number) = self.channel.number();
        (makers, number << Peer::BITS | self.from.number())
    }
}

/// An error: too many requests of a process wait.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InboxFull;

/// The requests that wait, by channel and process.
#[derive(Debug)]
pub(super) struct ChannelInbox<R> {
    queues: IdMap<InboxKey, WaitingRequests<R>>,
    waiting: IdMap<Peer, usize>,
    tickets: u64,
}

#[derive(Debug)]
struct WaitingRequests<R> {
    /// The request of each ticket, once its references have come to rest; in the order of tickets.
    slots: VecDeque<(u64, Option<R>)>,
    serving: Serving,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Serving {
    Nobody,
    Somebody,
    /// The queue is being served, and has to be looked at once more.
    Again,
}

impl<R> Default for ChannelInbox<R> {
    fn default() -> Self {
        ChannelInbox {
            queues: IdMap::new(),
            waiting: IdMap::new(),
            tickets: 0,
        }
    }
}

impl<R> ChannelInbox<R> {
    /// A request has come. Returns its ticket.
    pub(super) fn arrive(&mut self, key: InboxKey) -> Result<u64, InboxFull> {
        let waiting = self.waiting.or_default(key.from);
        if *waiting >= WAITING_MAX {
            return Err(InboxFull);
        }
        *waiting += 1;
        self.tickets += 1;
        let queue = self.queues.get_or_insert_with(key, || WaitingRequests {
            slots: VecDeque::new(),
            serving: Serving::Nobody,
        });
        queue.slots.push_back((self.tickets, None));
        Ok(self.tickets)
    }

    /// The request of a ticket can be served in its turn.
    pub(super) fn ready(&mut self, key: InboxKey, ticket: u64, request: R) {
        let Some(queue) = self.queues.get_mut(&key) else {
            return; // its process is dead
        };
        let at = queue.slots.binary_search_by_key(&ticket, |(it, _)| *it);
        if let Some((_, slot)) = at.ok().and_then(|at| queue.slots.get_mut(at)) {
            *slot = Some(request);
        }
    }

    /// Takes the right to serve a queue; whoever has it already looks once more.
    pub(super) fn begin(&mut self, key: InboxKey) -> bool {
        let Some(queue) = self.queues.get_mut(&key) else {
            return false;
        };
        let is_free = queue.serving == Serving::Nobody;
        queue.serving = if is_free {
            Serving::Somebody
        } else {
            Serving::Again
        };
        is_free
    }

    /// Takes the first request, if it can be served.
    pub(super) fn next(&mut self, key: InboxKey) -> Option<R> {
        let queue = self.queues.get_mut(&key)?;
        let request = queue.slots.front_mut()?.1.take()?;
        queue.slots.pop_front();
        self.credit(key.from, 1);
        Some(request)
    }

    /// Gives the right to serve back. Returns false if the queue has to be looked at once more.
    pub(super) fn end(&mut self, key: InboxKey) -> bool {
        let Some(queue) = self.queues.get_mut(&key) else {
            return true;
        };
        if queue.serving == Serving::Again {
            queue.serving = Serving::Somebody;
            return false;
        }
        queue.serving = Serving::Nobody;
        if queue.slots.is_empty() {
            self.queues.remove(&key);
        }
        true
    }

    /// Forgets the requests of a process that is dead.
    pub(super) fn died(&mut self, peer: Peer) {
        self.queues.retain(|key, _| key.from != peer);
        self.waiting.remove(&peer);
    }

    /// The queues of the channels of which `is_meant` is true.
    pub(super) fn keys(&self, is_meant: impl Fn(RefId) -> bool) -> Vec<InboxKey> {
        let keys = self.queues.keys().copied();
        keys.filter(|key| is_meant(key.channel)).collect()
    }

    /// The number of requests that wait.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.waiting.values().sum()
    }

    fn credit(&mut self, peer: Peer, count: usize) {
        if let Some(waiting) = self.waiting.get_mut(&peer) {
            *waiting = waiting.saturating_sub(count);
            if *waiting == 0 {
                self.waiting.remove(&peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::peer;

    fn key(number: u64) -> InboxKey {
        let from = peer(1);
        let channel = RefId {
            owner: from,
            creator: from,
            number,
        };
        InboxKey { channel, from }
    }

    #[test]
    fn requests_are_served_in_the_order_in_which_they_came() {
        let (mut inbox, key) = (ChannelInbox::default(), key(1));
        let (first, second) = (inbox.arrive(key).unwrap(), inbox.arrive(key).unwrap());
        inbox.ready(key, second, "second");
        assert!(inbox.begin(key));
        assert_eq!(inbox.next(key), None, "the first one is not ready");
        inbox.ready(key, first, "first");
        assert!(!inbox.begin(key), "somebody serves");
        assert!(!inbox.end(key), "and looks once more");
        assert_eq!(
            (inbox.next(key), inbox.next(key)),
            (Some("first"), Some("second"))
        );
        assert!(inbox.end(key));
        assert_eq!((inbox.len(), inbox.queues.len()), (0, 0));
    }

    #[test]
    fn the_requests_of_a_process_are_limited_and_go_with_it() {
        let mut inbox = ChannelInbox::<()>::default();
        for number in 0..WAITING_MAX as u64 {
            inbox.arrive(key(number)).unwrap();
        }
        assert_eq!(inbox.arrive(key(0)), Err(InboxFull));
        inbox.died(key(0).from);
        assert_eq!((inbox.len(), inbox.queues.len()), (0, 0));
        inbox.ready(key(0), 1, ());
        assert!(!inbox.begin(key(0)));
    }
}
