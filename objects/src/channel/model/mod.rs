//! The model of remote channels (M3), explored state by state with stateright.
//!
//! The home and every user are the product's state machines. Links deliver requests and answers in order, each once, as
//! a session does; those of a process that has crashed arrive up to any point. Values are numbers, each put once. The
//! properties:
//! - `conserved` (CHANNEL-1): every confirmed value is stored, on its way, or acknowledged, and in one place only;
//! - `taken once` (CHANNEL-2): no two living users have the same value;
//! - `in order` (CHANNEL-3): stored values stand in the order of each putter;
//! - `bounded` (CHANNEL-4): what is stored beyond the capacity has come back;
//! - `closed` (CHANNEL-5): nothing is stored after the channel was closed;
//! - `linearizable` (CHANNEL-3): without deaths and cancellations, users see a sequential bounded queue;
//! - `nothing left` (CHANNEL-6): when the users that take everything have ended, no value is left;
//! - `ends` (CHANNEL-7): every request is answered, so every script ends.

mod queue;
mod scenarios;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use selvedge_cluster::peer::{Peer, ProcessId};
use stateright::semantics::{ConsistencyTester, LinearizabilityTester};
use stateright::{HasDiscoveries, Model, Property};

use super::mutant::ChannelMutant;
use super::{Answer, ChannelHome, ChannelSettings, ChannelUser, Outcome, Reply, Request, Wish};
use crate::mutants::explore;
use queue::{BoundedQueue, Seen};

/// One thing that a user does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Deed {
    Put(u8),
    Take,
    Peek,
    Close,
    /// Takes until the channel is closed and empty.
    TakeAll,
}

#[derive(Clone, Debug)]
struct Script {
    capacity: usize,
    /// What each user does, one after the other.
    users: Vec<Vec<Deed>>,
    /// A user that may crash at any time.
    mortal: Option<usize>,
    /// A user that may cancel each of its requests, or give back what it has taken, once.
    cancels: Option<usize>,
    /// Whether histories are compared with a sequential queue.
    compares: bool,
    mutant: ChannelMutant,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Player {
    user: ChannelUser<u8>,
    /// How far its script is.
    at: usize,
    /// The request that it waits for.
    waits: Option<u64>,
    /// The value that it has taken and not acknowledged.
    holds: Option<(u64, u8)>,
    /// The values that it has acknowledged.
    has: Vec<u8>,
    has_cancelled: bool,
    to_home: VecDeque<Request<u8>>,
    to_user: VecDeque<(u64, Answer<u8>)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    home: ChannelHome<u8>,
    players: Vec<Player>,
    /// The values on their way to a taker or with it, by taker and number of its request.
    delivered: BTreeMap<(usize, u64), u8>,
    /// The values of puts, by putter and number of its request.
    asked: BTreeMap<(usize, u64), u8>,
    confirmed: BTreeSet<u8>,
    consumed: Vec<u8>,
    returned: BTreeSet<u8>,
    has_crashed: bool,
    is_known: bool,
    stored_late: bool,
    history: LinearizabilityTester<usize, BoundedQueue>,
}

#[derive(Clone, Debug, PartialEq)]
enum Turn {
    Begin(usize),
    ToHome(usize),
    ToUser(usize),
    Acknowledge(usize),
    Cancel(usize),
    Crash,
    Learn,
}

fn peer(user: usize) -> Peer {
    ProcessId::new(user as u32 + 1).unwrap().first_life()
}

impl World {
    fn begin(&mut self, at: usize, script: &Script) {
        let deed = script.users[at][self.players[at].at];
        let player = &mut self.players[at];
        let (number, request) = match deed {
            Deed::Put(value) => player.user.put(value).unwrap(),
            Deed::Take | Deed::TakeAll => player.user.take().unwrap(),
            Deed::Peek => player.user.peek().unwrap(),
            Deed::Close => {
                player.to_home.push_back(player.user.close().unwrap());
                player.at += 1;
                // Nobody is told when it takes effect.
                return self.note(script, |history| {
                    let _pending = history.on_invoke(100 + at, Deed::Close);
                });
            }
        };
        player.waits = Some(number);
        if let Deed::Put(value) = deed {
            self.asked.insert((at, number), value);
        }
        player.to_home.push_back(request);
        self.note(script, |history| {
            history.on_invoke(at, deed).unwrap();
        });
    }

    fn note(&mut self, script: &Script, note: impl Fn(&mut LinearizabilityTester<usize, BoundedQueue>)) {
        if script.compares {
            note(&mut self.history);
        }
    }

    fn arrive_at_home(&mut self, from: usize) {
        let request = self.players[from].to_home.pop_front().unwrap();
        let number = request.number;
        let was_closed = self.home.is_closed();
        match request.wish {
            Wish::Acknowledge => self.consumed.extend(self.delivered.remove(&(from, number))),
            Wish::Cancel => self.returned.extend(self.delivered.remove(&(from, number))),
            _ => {}
        }
        let replies = self.home.request(peer(from), request);
        self.perform(replies, was_closed);
    }

    fn perform(&mut self, replies: Vec<Reply<u8>>, was_closed: bool) {
        for Reply { to, number, answer } in replies {
            let at = to.process.number() as usize - 1;
            match answer {
                Answer::Stored => {
                    self.stored_late |= was_closed;
                    self.confirmed.extend(self.asked.get(&(at, number)));
                }
                Answer::Value(value) if self.home.is_reserved(to, number) => {
                    self.delivered.insert((at, number), value);
                }
                _ => {}
            }
            self.players[at].to_user.push_back((number, answer));
        }
    }

    fn arrive_at_user(&mut self, at: usize, script: &Script) {
        let player = &mut self.players[at];
        let (number, answer) = player.to_user.pop_front().unwrap();
        let Some(outcome) = player.user.answered(number, answer) else {
            return;
        };
        let deed = script.users[at][player.at];
        player.waits = None;
        let seen = match outcome {
            Outcome::Stored => Seen::Stored,
            Outcome::Value(value) => {
                let takes = deed != Deed::Peek;
                player.holds = takes.then_some((number, value));
                Seen::Value(value)
            }
            Outcome::NotPut(_) | Outcome::Failed(_) | Outcome::Ready(_) => Seen::Closed,
        };
        if deed != Deed::TakeAll || seen == Seen::Closed {
            player.at += 1;
        }
        self.note(script, |history| {
            history.on_return(at, seen.clone()).unwrap();
        });
    }

    fn cancel(&mut self, at: usize, script: &Script) {
        let player = &mut self.players[at];
        let held = player.holds.take();
        let number = held.map(|(number, _)| number).or(player.waits.take()).unwrap();
        player.to_home.extend(player.user.cancel(number));
        player.has_cancelled = true;
        // What waits is done with; what was held had moved the script on.
        if held.is_none() && script.users[at][player.at] != Deed::TakeAll {
            player.at += 1;
        }
    }

    fn learn(&mut self, dead: usize) {
        self.is_known = true;
        self.players[dead].to_home.clear();
        let back = self.delivered.extract_if(.., |(taker, _), _| *taker == dead);
        self.returned.extend(back.map(|(_, value)| value));
        let was_closed = self.home.is_closed();
        let replies = self.home.dead(peer(dead));
        self.perform(replies, was_closed);
    }

    fn is_dead(&self, at: usize, script: &Script) -> bool {
        self.has_crashed && script.mortal == Some(at)
    }

    fn is_done(&self, script: &Script) -> bool {
        let ended = |(at, player): (usize, &Player)| {
            let has_ended = player.at == script.users[at].len() && player.holds.is_none();
            self.is_dead(at, script) || has_ended && player.to_home.is_empty()
        };
        self.players.iter().enumerate().all(ended) && (self.is_known || !self.has_crashed)
    }

    fn is_conserved(&self) -> bool {
        let on_their_way = self.home.reserved_values();
        let places = self.home.snapshot().into_iter().chain(on_their_way);
        let mut all: Vec<u8> = places.chain(self.consumed.iter().copied()).collect();
        all.sort_unstable();
        all.into_iter().eq(self.confirmed.iter().copied())
    }

    fn is_taken_once(&self, script: &Script) -> bool {
        let living = (0..self.players.len()).filter(|at| !self.is_dead(*at, script));
        let values = living.flat_map(|at| {
            let player = &self.players[at];
            player
                .has
                .iter()
                .copied()
                .chain(player.holds.map(|(_, value)| value))
        });
        let mut seen = BTreeSet::new();
        values.into_iter().all(|value| seen.insert(value))
    }

    fn is_in_order(&self, script: &Script) -> bool {
        let stored = self.home.snapshot();
        let putters = script.users.iter().map(|deeds| {
            let values = deeds.iter().filter_map(|deed| match deed {
                Deed::Put(value) => stored.iter().position(|it| it == value),
                _ => None,
            });
            values.collect::<Vec<_>>()
        });
        putters.into_iter().all(|places| places.is_sorted())
    }

    fn is_bounded(&self, script: &Script) -> bool {
        let own = self.home.snapshot().into_iter();
        own.filter(|value| !self.returned.contains(value)).count() <= script.capacity
    }

    fn leaves_nothing(&self, script: &Script) -> bool {
        let takes_all = |at: usize| !self.is_dead(at, script) && script.users[at].contains(&Deed::TakeAll);
        let somebody = (0..script.users.len()).any(takes_all);
        !self.is_done(script) || !somebody || self.home.is_empty() && self.home.on_their_way() == 0
    }
}

impl Model for Script {
    type State = World;
    type Action = Turn;

    fn init_states(&self) -> Vec<World> {
        let mut home = ChannelHome::new(ChannelSettings::with_capacity(self.capacity));
        home.mutant = self.mutant;
        let player = |_| Player {
            user: ChannelUser::new(peer(self.users.len())),
            at: 0,
            waits: None,
            holds: None,
            has: Vec::new(),
            has_cancelled: false,
            to_home: VecDeque::new(),
            to_user: VecDeque::new(),
        };
        vec![World {
            home,
            players: (0..self.users.len()).map(player).collect(),
            delivered: BTreeMap::new(),
            asked: BTreeMap::new(),
            confirmed: BTreeSet::new(),
            consumed: Vec::new(),
            returned: BTreeSet::new(),
            has_crashed: false,
            is_known: false,
            stored_late: false,
            history: LinearizabilityTester::new(BoundedQueue::new(self.capacity.max(1))),
        }]
    }

    fn actions(&self, state: &World, turns: &mut Vec<Turn>) {
        for (at, player) in state.players.iter().enumerate() {
            let is_dead = state.is_dead(at, self);
            // What the dead had sent may still arrive, until the death is known.
            if !player.to_home.is_empty() {
                turns.push(Turn::ToHome(at));
            }
            if is_dead {
                continue;
            }
            if !player.to_user.is_empty() {
                turns.push(Turn::ToUser(at));
            }
            let is_idle = player.waits.is_none() && player.holds.is_none();
            if is_idle && player.at < self.users[at].len() {
                turns.push(Turn::Begin(at));
            }
            if player.holds.is_some() {
                turns.push(Turn::Acknowledge(at));
            }
            if self.cancels == Some(at) && !is_idle && !player.has_cancelled {
                turns.push(Turn::Cancel(at));
            }
        }
        if self.mortal.is_some() && !state.has_crashed {
            turns.push(Turn::Crash);
        }
        if state.has_crashed && !state.is_known {
            turns.push(Turn::Learn);
        }
    }

    fn next_state(&self, state: &World, turn: Turn) -> Option<World> {
        let mut next = state.clone();
        match turn {
            Turn::Begin(at) => next.begin(at, self),
            Turn::ToHome(at) => next.arrive_at_home(at),
            Turn::ToUser(at) => next.arrive_at_user(at, self),
            Turn::Acknowledge(at) => {
                let player = &mut next.players[at];
                let (number, value) = player.holds.take().unwrap();
                player.has.push(value);
                player.to_home.extend(player.user.acknowledge(number));
            }
            Turn::Cancel(at) => next.cancel(at, self),
            Turn::Crash => {
                next.has_crashed = true;
                next.players[self.mortal.unwrap()].to_user.clear();
            }
            Turn::Learn => next.learn(self.mortal.unwrap()),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("conserved", |_, state: &World| state.is_conserved()),
            Property::always("taken once", |script, state: &World| state.is_taken_once(script)),
            Property::always("in order", |script, state: &World| state.is_in_order(script)),
            Property::always("bounded", |script, state: &World| state.is_bounded(script)),
            Property::always("closed", |_, state: &World| !state.stored_late),
            Property::always("linearizable", |_, state: &World| state.history.is_consistent()),
            Property::always("nothing left", |script, state: &World| {
                state.leaves_nothing(script)
            }),
            Property::eventually("ends", |script, state: &World| state.is_done(script)),
        ]
    }
}

/// Explores all states. Returns the names of the properties that do not hold.
fn faults(script: &Script) -> Vec<&'static str> {
    let what = format!("{:?} {:?}", script.mutant, script.users);
    explore(&what, script.clone(), HasDiscoveries::All)
}
