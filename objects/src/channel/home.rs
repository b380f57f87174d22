//! The home of a channel: its values, and who waits for them.

use selvedge_cluster::peer::Peer;

use super::items::Items;
use super::mutant::ChannelMutant;
use super::waiters::{Arrival, Asker, Open, Sight, Waiters};
use super::{Answer, ChannelSettings, Request, Wish};

/// An answer that has to be sent, in an ordered frame. Encode the answers of one step in the order given: with a capacity
/// of 0, the taker's value comes before the confirmation of its put.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reply<V> {
    /// The process that has asked.
    pub to: Peer,
    /// The number of its request.
    pub number: u64,
    /// The answer.
    pub answer: Answer<V>,
}

/// A channel in its process. Clones of a value are delivered and kept until they are acknowledged, so a value is best an
/// `Arc`.
///
/// Requests and deaths go in, replies come out. Requests that no lawful user sends have no effect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChannelHome<V> {
    settings: ChannelSettings,
    items: Items<V>,
    putters: Waiters<V>,
    takers: Waiters<()>,
    peekers: Waiters<Sight>,
    open: Open,
    is_closed: bool,
    /// The replies of the step that is being made.
    replies: Vec<Reply<V>>,
    pub(super) mutant: ChannelMutant,
}

impl<V: Clone> ChannelHome<V> {
    /// An empty channel.
    pub fn new(settings: ChannelSettings) -> Self {
        ChannelHome {
            settings,
            items: Items::new(),
            putters: Waiters::new(),
            takers: Waiters::new(),
            peekers: Waiters::new(),
            open: Open::new(),
            is_closed: false,
            replies: Vec::new(),
            mutant: ChannelMutant::None,
        }
    }

    /// A request has arrived, exactly once and in the order of its process's requests.
    pub fn request(&mut self, from: Peer, request: Request<V>) -> Vec<Reply<V>> {
        let number = request.number;
        let asker = Asker { peer: from, number };
        match request.wish {
            Wish::Put(value) => self.wait(asker, |home, at| home.putters.push(at, asker, value)),
            Wish::Take => self.wait(asker, |home, at| home.takers.push(at, asker, ())),
            Wish::Peek => self.wait(asker, |home, at| home.peekers.push(at, asker, Sight::Value)),
            Wish::Ready => self.wait(asker, |home, at| home.peekers.push(at, asker, Sight::Presence)),
            Wish::IsReady => self.reply(asker, Answer::Ready(self.is_ready())),
            Wish::Close => self.close_putters(),
            Wish::Acknowledge => self.acknowledge(asker),
            Wish::Cancel => self.cancel(asker),
        }
        self.serve()
    }

    /// The process of the channel closes it: nobody can put any more.
    pub fn close(&mut self) -> Vec<Reply<V>> {
        self.close_putters();
        self.serve()
    }

    /// An answer to a take could not be sent, for example since the value cannot be encoded: the value goes back.
    pub fn not_sent(&mut self, to: Peer, number: u64) -> Vec<Reply<V>> {
        self.cancel(Asker { peer: to, number });
        self.serve()
    }

    /// A process has died, or was declared dead: its requests end, and what it has taken and not acknowledged goes back.
    pub fn dead(&mut self, peer: Peer) -> Vec<Reply<V>> {
        for number in self.open.of(peer) {
            let asker = Asker { peer, number };
            if self.mutant == ChannelMutant::ForgetsReserved {
                self.items.acknowledge(asker);
            }
            self.end(asker);
        }
        self.serve()
    }

    /// Whether a take would be answered now. That may have changed by the time it is read.
    pub fn is_ready(&self) -> bool {
        self.offered().is_some()
    }

    /// The number of stored values.
    pub fn len(&self) -> usize {
        self.items.stored()
    }

    /// Whether no value is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of values on their way to a taker.
    pub fn on_their_way(&self) -> usize {
        self.items.reserved()
    }

    /// The number of requests that wait.
    pub fn waiting(&self) -> usize {
        self.putters.len() + self.takers.len() + self.peekers.len()
    }

    /// Whether the channel is closed.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Clones of the stored values, the oldest first.
    pub fn snapshot(&self) -> Vec<V> {
        self.items.values().cloned().collect()
    }

    #[cfg(test)]
    pub(super) fn reserved_values(&self) -> Vec<V> {
        self.items.reserved_values().cloned().collect()
    }

    #[cfg(test)]
    pub(super) fn is_reserved(&self, peer: Peer, number: u64) -> bool {
        self.items.is_reserved(Asker { peer, number })
    }

    /// Enters a request that waits, unless its process has too many or uses a number twice.
    fn wait(&mut self, asker: Asker, push: impl FnOnce(&mut Self, Arrival)) {
        let limit = self.settings.requests_max;
        if self.open.contains(asker) {
            return;
        }
        if self.open.count(asker.peer) >= limit {
            return self.reply(asker, Answer::TooMany { limit });
        }
        let arrival = self.open.enter(asker);
        push(self, arrival);
    }

    fn acknowledge(&mut self, taker: Asker) {
        if self.items.acknowledge(taker) {
            self.open.remove(taker);
        }
    }

    fn cancel(&mut self, asker: Asker) {
        if !(self.mutant == ChannelMutant::IgnoresLateCancels && self.items.is_reserved(asker)) {
            self.end(asker);
        }
    }

    /// Ends a request, at whatever stage.
    fn end(&mut self, asker: Asker) {
        self.items.put_back(asker, self.mutant);
        if let Some(arrival) = self.open.remove(asker) {
            self.putters.remove(arrival);
            self.takers.remove(arrival);
            self.peekers.remove(arrival);
        }
    }

    fn close_putters(&mut self) {
        self.is_closed = true;
        if self.mutant == ChannelMutant::ClosesAtOnce {
            self.items.clear();
        }
        while self.mutant != ChannelMutant::ForgetsPutters
            && let Some((putter, _)) = self.putters.pop()
        {
            self.answer(putter, Answer::Closed);
        }
    }

    /// Answers everything that can be answered.
    fn serve(&mut self) -> Vec<Reply<V>> {
        if self.is_closed && self.mutant != ChannelMutant::ForgetsPutters {
            self.close_putters(); // those that have come since
        }
        loop {
            self.store();
            self.show();
            if !self.deliver() {
                break;
            }
        }
        if self.is_closed {
            self.tell_the_end();
        }
        std::mem::take(&mut self.replies)
    }

    /// Stores what waits, as far as there is room.
    fn store(&mut self) {
        while self.has_room()
            && let Some((putter, value)) = self.putters.pop()
        {
            self.items.push(value);
            self.answer(putter, Answer::Stored);
        }
    }

    fn has_room(&self) -> bool {
        let is_unbuffered = self.settings.capacity == 0;
        let early = self.mutant == ChannelMutant::ConfirmsEarly;
        let without_taker = is_unbuffered && self.mutant == ChannelMutant::ConfirmsWithoutTaker;
        let more = usize::from(early || without_taker);
        self.items.stored() < self.settings.capacity + more
    }

    /// The oldest value that a taker could have.
    fn offered(&self) -> Option<&V> {
        let unbuffered = self.putters.first().filter(|_| self.settings.capacity == 0);
        self.items.first().or(unbuffered)
    }

    /// Answers those who want to see the oldest value.
    fn show(&mut self) {
        while let Some(value) = self.offered().cloned()
            && let Some((peeker, sight)) = self.peekers.pop()
        {
            let answer = match sight {
                Sight::Value => Answer::Value(value),
                Sight::Presence => Answer::Ready(true),
            };
            self.answer(peeker, answer);
        }
    }

    /// Delivers the oldest value to the first taker. Returns whether there were both.
    fn deliver(&mut self) -> bool {
        if self.takers.is_empty() || self.offered().is_none() {
            return false;
        }
        let handed_over = match self.items.first() {
            Some(_) => None,
            // The capacity is 0, and the value goes from the one who puts to the one who takes.
            None => self.putters.pop(),
        };
        let putter = handed_over.map(|(putter, value)| {
            self.items.push(value);
            putter
        });
        if let Some((taker, ())) = self.takers.pop()
            && let Some(value) = self.items.reserve(taker, self.mutant)
        {
            let (to, number) = (taker.peer, taker.number);
            let answer = Answer::Value(value);
            self.replies.push(Reply { to, number, answer });
        }
        if let Some(putter) = putter {
            self.answer(putter, Answer::Stored);
        }
        true
    }

    /// Tells those who wait for values that none will come. A value that is on its way may still come back.
    fn tell_the_end(&mut self) {
        let may_come_back =
            self.items.reserved() > 0 && self.mutant != ChannelMutant::ForgetsTheUnacknowledged;
        if self.items.stored() > 0 || may_come_back || self.mutant == ChannelMutant::ForgetsTakers {
            return;
        }
        while let Some((taker, ())) = self.takers.pop() {
            self.answer(taker, Answer::Closed);
        }
        while let Some((peeker, _)) = self.peekers.pop() {
            self.answer(peeker, Answer::Closed);
        }
    }

    /// Answers a request for good.
    fn answer(&mut self, asker: Asker, answer: Answer<V>) {
        self.open.remove(asker);
        self.reply(asker, answer);
    }

    fn reply(&mut self, asker: Asker, answer: Answer<V>) {
        let (to, number) = (asker.peer, asker.number);
        self.replies.push(Reply { to, number, answer });
    }
}
