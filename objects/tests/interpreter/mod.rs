//! Random requests of several processes, compared with a plain interpreter of channels.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use proptest::prelude::*;
use selvedge_cluster::peer::Peer;
use selvedge_objects::channel::{Answer, ChannelHome, ChannelSettings, Reply, Request, Wish};

use super::peer;

/// A channel as lists that are searched from the front.
struct Plain {
    capacity: usize,
    /// Values with their places in the order of puts.
    stored: Vec<(u64, u32)>,
    away: Vec<((Peer, u64), (u64, u32))>,
    waiting: Vec<((Peer, u64), Wish<u32>)>,
    next: u64,
    is_closed: bool,
    replies: Vec<Reply<u32>>,
}

impl Plain {
    fn reply(&mut self, (to, number): (Peer, u64), answer: Answer<u32>) {
        self.replies.push(Reply { to, number, answer });
    }

    /// Answers the first waiting request of which `is_it` says yes.
    fn first(&mut self, is_it: impl Fn(&Wish<u32>) -> bool) -> Option<((Peer, u64), Wish<u32>)> {
        let at = self.waiting.iter().position(|(_, wish)| is_it(wish))?;
        Some(self.waiting.remove(at))
    }

    fn store(&mut self, value: u32) {
        self.stored.push((self.next, value));
        self.next += 1;
    }

    fn oldest(&self) -> Option<u32> {
        let offered = self.waiting.iter().find_map(|(_, wish)| match wish {
            Wish::Put(value) if self.capacity == 0 => Some(*value),
            _ => None,
        });
        let stored = self.stored.iter().min();
        stored.map(|(_, value)| *value).or(offered)
    }

    /// One thing that can be done now. Returns whether there was one.
    fn progress(&mut self) -> bool {
        let is_put = |wish: &Wish<u32>| matches!(wish, Wish::Put(_));
        let is_look = |wish: &Wish<u32>| matches!(wish, Wish::Peek | Wish::Ready);
        let is_take = |wish: &Wish<u32>| matches!(wish, Wish::Take);
        let can_put = self.is_closed || self.stored.len() < self.capacity;
        if can_put && let Some((asker, Wish::Put(value))) = self.first(is_put) {
            if self.is_closed {
                self.reply(asker, Answer::Closed);
            } else {
                self.store(value);
                self.reply(asker, Answer::Stored);
            }
            return true;
        }
        let Some(oldest) = self.oldest() else {
            let is_over = self.is_closed && self.away.is_empty();
            let waiter = if is_over { self.first(|_| true) } else { None };
            let found = waiter.is_some();
            waiter
                .into_iter()
                .for_each(|(asker, _)| self.reply(asker, Answer::Closed));
            return found;
        };
        if let Some((asker, wish)) = self.first(is_look) {
            let answer = if wish == Wish::Peek {
                Answer::Value(oldest)
            } else {
                Answer::Ready(true)
            };
            self.reply(asker, answer);
            return true;
        }
        let Some((taker, _)) = self.first(is_take) else {
            return false;
        };
        let putter = match self.stored.is_empty() {
            true => self.first(is_put).map(|(putter, _)| {
                self.store(oldest);
                putter
            }),
            false => None,
        };
        let place = self.stored.iter().min().copied().unwrap();
        self.stored.retain(|it| *it != place);
        self.away.push((taker, place));
        self.reply(taker, Answer::Value(oldest));
        putter
            .into_iter()
            .for_each(|putter| self.reply(putter, Answer::Stored));
        true
    }

    fn end(&mut self, is_over: impl Fn(&(Peer, u64)) -> bool) {
        let back = self.away.extract_if(.., |(taker, _)| is_over(taker));
        self.stored.extend(back.map(|(_, place)| place));
        self.waiting.retain(|(asker, _)| !is_over(asker));
    }

    fn step(&mut self, happening: &Happening) -> Vec<Reply<u32>> {
        match happening {
            Happening::Dead(dead) => self.end(|(peer, _)| peer == dead),
            Happening::Asked(from, request) => {
                let asker = (*from, request.number);
                match &request.wish {
                    Wish::Close => self.is_closed = true,
                    Wish::Acknowledge => self.away.retain(|(taker, _)| *taker != asker),
                    Wish::Cancel => self.end(|it| *it == asker),
                    Wish::IsReady => {
                        let is_ready = self.oldest().is_some();
                        self.reply(asker, Answer::Ready(is_ready));
                    }
                    wish => self.waiting.push((asker, wish.clone())),
                }
            }
        }
        while self.progress() {}
        std::mem::take(&mut self.replies)
    }

    fn snapshot(&self) -> Vec<u32> {
        let mut stored = self.stored.clone();
        stored.sort_unstable();
        stored.into_iter().map(|(_, value)| value).collect()
    }
}

#[derive(Clone, Debug)]
enum Happening {
    Asked(Peer, Request<u32>),
    Dead(Peer),
}

/// A request of one of three processes. Acknowledgements and cancellations name one of its earlier requests.
fn happenings(kinds: Vec<(u32, u8, prop::sample::Index)>) -> Vec<Happening> {
    let mut numbers = [0_u64; 3];
    let mut value = 0;
    let happening = |(at, kind, index): (u32, u8, prop::sample::Index)| {
        let last = &mut numbers[at as usize];
        let earlier = index.index((*last).max(1) as usize) as u64 + 1;
        *last += 1;
        value += 1;
        let (number, wish) = match kind {
            0..=5 => (*last, Wish::Put(value)),
            6..=11 => (*last, Wish::Take),
            12 => (*last, Wish::Peek),
            13 => (*last, Wish::Ready),
            14 => (*last, Wish::IsReady),
            15..=18 => (earlier, Wish::Acknowledge),
            19..=21 => (earlier, Wish::Cancel),
            22 => return Happening::Dead(peer(at + 1)),
            _ => (*last, Wish::Close),
        };
        Happening::Asked(peer(at + 1), Request { number, wish })
    };
    kinds.into_iter().map(happening).collect()
}

fn by_asker(mut replies: Vec<Reply<u32>>) -> Vec<Reply<u32>> {
    replies.sort_by_key(|it| (it.to, it.number));
    replies
}

proptest! {
    #[test]
    fn jchan_11_requests_of_many_processes_are_answered_as_an_interpreter_says(
        capacity in 0_usize..4,
        kinds in proptest::collection::vec((0_u32..3, 0_u8..24, any::<prop::sample::Index>()), 0..120),
        closes in any::<bool>(),
    ) {
        let mut home = ChannelHome::new(ChannelSettings::with_capacity(capacity));
        let (stored, away, waiting, replies) = (vec![], vec![], vec![], vec![]);
        let mut plain = Plain { capacity, stored, away, waiting, next: 0, is_closed: false, replies };
        for happening in happenings(kinds) {
            if let Happening::Asked(_, Request { wish: Wish::Close, .. }) = happening && !closes {
                continue;
            }
            let expected = plain.step(&happening);
            let replies = match happening.clone() {
                Happening::Asked(from, request) => home.request(from, request),
                Happening::Dead(dead) => home.dead(dead),
            };
            prop_assert_eq!(by_asker(replies), by_asker(expected), "{:?}", happening);
            prop_assert_eq!(home.snapshot(), plain.snapshot());
            prop_assert_eq!((home.on_their_way(), home.waiting()), (plain.away.len(), plain.waiting.len()));
        }
    }
}
