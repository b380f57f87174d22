//! Handshakes over a network that belongs to somebody else, explored state by state: two processes dial, two listen, and a stranger
//! without the cookie carries the bytes.
//!
//! The stranger delivers anything that was ever written to any side, as often as it likes, and what it can make itself: a hello, proofs
//! of noughts, known proofs under other welcomes, and letters of other services. The states are those of [`Handshake`] itself.
//!
//! - `authenticated`: a listener authenticates nobody but a dialer that has heard this listener's hello, and each such dialer counts once;
//! - `welcomed`: a dialer takes no welcome but the one that a listener wrote to it, word for word;
//! - `refused`: a side that has failed writes no welcome, even if it is told to;
//! - `letters`: no side goes on after a frame of another service.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::tests::{NOW, identity};
use super::*;
use crate::peer::{Peer, ProcessId};

/// The sides: the first two dial.
const SIDES: usize = 4;
const DIALERS: usize = 2;

/// A message is delivered to a side.
#[derive(Clone, Debug)]
struct Delivery {
    to: usize,
    bytes: Vec<u8>,
}

/// One side, and what it has come to.
struct OneSide {
    handshake: Handshake,
    hello: Hello,
    heard: Vec<Vec<u8>>,
    /// The welcome that a listener has written.
    welcome: Option<Welcome>,
    authenticated: Option<Hello>,
    welcomed: Option<(Hello, Welcome)>,
    has_failed: bool,
    /// Set once the side has written a welcome after it had failed.
    welcomed_refused: bool,
    /// Set once the side has gone on after a letter.
    took_letter: bool,
}

struct Wire {
    sides: Vec<OneSide>,
    /// All that the stranger has seen or made.
    known: BTreeSet<Vec<u8>>,
}

fn peer(number: usize) -> Peer {
    ProcessId::new(number as u32 + 1).unwrap().first_life()
}

/// The side with this number; the one behind the last is the stranger.
fn identity_of(side: usize) -> Identity {
    let role = if side < DIALERS { Role::Worker } else { Role::Head };
    identity(role, side as u8 + 1)
}

fn message(bytes: &[u8]) -> (Service, Message) {
    let frame = Decoder::<Vec<u8>>::new(FrameLimits::HANDSHAKE).decode(&mut &bytes[..]);
    let frame = frame.unwrap().unwrap();
    (frame.service, postcard::from_bytes(&frame.head).unwrap())
}

impl Wire {
    fn new(mutant: HandshakeMutant) -> Self {
        let mut known = BTreeSet::new();
        let sides = (0..SIDES).map(|side| {
            let identity = identity_of(side);
            let hello = identity.hello.clone();
            let mut handshake = match side < DIALERS {
                true => {
                    let (handshake, bytes) = Handshake::dial(NOW, identity).unwrap();
                    known.insert(bytes);
                    handshake
                }
                false => Handshake::listen(NOW, identity),
            };
            handshake.mutant = mutant;
            OneSide {
                handshake,
                hello,
                heard: Vec::new(),
                welcome: None,
                authenticated: None,
                welcomed: None,
                has_failed: false,
                welcomed_refused: false,
                took_letter: false,
            }
        });
        let sides = sides.collect();
        // What needs no cookie.
        let own = Message::Hello(identity_of(SIDES).hello);
        let forged = Message::Proof([0; 32]);
        known.extend([&own, &forged].map(|it| encode(it).unwrap().0));
        let letter = frame(Service(900), postcard::to_stdvec(&own).unwrap());
        known.insert(letter.prefix(&FrameLimits::HANDSHAKE).unwrap());
        Wire { sides, known }
    }

    fn after(mutant: HandshakeMutant, history: &[Delivery]) -> Self {
        let mut wire = Wire::new(mutant);
        history.iter().for_each(|delivery| wire.deliver(delivery));
        wire
    }

    fn deliveries(&self) -> Vec<Delivery> {
        let sides = self.sides.iter().enumerate();
        let open = sides.filter(|(_, side)| !side.has_failed && side.heard.len() < 2);
        open.flat_map(|(to, _)| {
            self.known.iter().map(move |bytes| Delivery {
                to,
                bytes: bytes.clone(),
            })
        })
        .collect()
    }

    fn deliver(&mut self, Delivery { to, bytes }: &Delivery) {
        let side = &mut self.sides[*to];
        side.heard.push(bytes.clone());
        let step = side.handshake.receive(NOW, &mut &bytes[..]);
        let is_letter = message(bytes).0 != Service::HANDSHAKE;
        side.took_letter |= is_letter && step.is_ok();
        let welcome = Welcome {
            you: peer(*to),
            me: peer(0),
            note: Vec::new(),
        };
        let written = match step {
            Err(_) => {
                side.has_failed = true;
                side.welcomed_refused = side.handshake.welcome(&welcome).is_ok();
                return;
            }
            Ok(None) => return,
            Ok(Some(Step::Write(answer))) => answer,
            Ok(Some(Step::Authenticated(hello))) => {
                side.authenticated = Some(hello);
                let bytes = side.handshake.welcome(&welcome).unwrap();
                side.welcome = Some(welcome);
                bytes
            }
            Ok(Some(Step::Welcomed(hello, welcome))) => {
                side.welcomed = Some((hello, welcome));
                return;
            }
        };
        if let Message::Welcome(_, proof) = message(&written).1 {
            // The proof under another name.
            let other = Welcome {
                you: peer(9),
                me: peer(0),
                note: Vec::new(),
            };
            let other = Message::Welcome(postcard::to_stdvec(&other).unwrap(), proof);
            self.known.insert(encode(&other).unwrap().0);
        }
        self.known.insert(written);
    }

    /// Whether `side` has heard this hello.
    fn has_heard(side: &OneSide, hello: &Hello) -> bool {
        let is_hello = |bytes: &Vec<u8>| matches!(message(bytes), (Service::HANDSHAKE, Message::Hello(it)) if it == *hello);
        side.heard.first().is_some_and(is_hello)
    }

    fn violation(&self) -> Option<&'static str> {
        let (dialers, listeners) = self.sides.split_at(DIALERS);
        let authenticated: Vec<(&OneSide, &Hello)> = listeners
            .iter()
            .filter_map(|it| Some((it, it.authenticated.as_ref()?)))
            .collect();
        let is_right = |(listener, hello): &(&OneSide, &Hello)| {
            let dialer = dialers.iter().find(|it| it.hello == **hello);
            dialer.is_some_and(|dialer| Self::has_heard(dialer, &listener.hello))
        };
        let names: BTreeSet<[u8; 32]> = authenticated.iter().map(|(_, hello)| hello.nonce).collect();
        if !authenticated.iter().all(is_right) || names.len() < authenticated.len() {
            return Some("authenticated");
        }
        let is_welcome = |dialer: &OneSide| {
            let Some((hello, welcome)) = &dialer.welcomed else {
                return true;
            };
            let listener = listeners.iter().find(|it| it.hello == *hello);
            listener.is_some_and(|it| {
                it.authenticated.as_ref() == Some(&dialer.hello) && it.welcome.as_ref() == Some(welcome)
            })
        };
        if !dialers.iter().all(is_welcome) {
            return Some("welcomed");
        }
        if self.sides.iter().any(|it| it.welcomed_refused) {
            return Some("refused");
        }
        self.sides.iter().any(|it| it.took_letter).then_some("letters")
    }

    /// All that decides what can happen from here: what the sides have heard that go on, and what the stranger knows.
    fn fingerprint(&self) -> u64 {
        let goes_on = |it: &OneSide| (!it.has_failed).then(|| it.heard.clone());
        let heard: Vec<_> = self.sides.iter().map(goes_on).collect();
        let mut hasher = DefaultHasher::new();
        (heard, &self.known).hash(&mut hasher);
        hasher.finish()
    }
}

/// Explores all orders of deliveries. Returns the number of states and of those in which both dialers were welcomed, or the property
/// that does not hold.
fn explore(mutant: HandshakeMutant) -> Result<(usize, usize), &'static str> {
    let start = Wire::new(mutant);
    let mut seen = HashSet::from([start.fingerprint()]);
    let mut histories = VecDeque::from([Vec::new()]);
    let mut both = 0;
    while let Some(history) = histories.pop_front() {
        let wire = Wire::after(mutant, &history);
        both += usize::from(wire.sides.iter().filter(|it| it.welcomed.is_some()).count() == DIALERS);
        for delivery in wire.deliveries() {
            let longer = [&history[..], &[delivery]].concat();
            let next = Wire::after(mutant, &longer);
            if let Some(violation) = next.violation() {
                return Err(violation);
            }
            if seen.insert(next.fingerprint()) {
                histories.push_back(longer);
            }
        }
    }
    Ok((seen.len(), both))
}

#[test]
fn m10_nobody_is_authenticated_or_welcomed_but_by_the_other_side_whatever_a_stranger_delivers() {
    let (states, both) = explore(HandshakeMutant::None).unwrap();
    println!("{states} states");
    assert!(both > 0, "two dialers and two listeners can meet");
}

#[test]
fn m10_every_mutant_of_the_handshake_breaks_its_property() {
    for (mutant, property) in [
        (HandshakeMutant::BelievesAll, "authenticated"),
        (HandshakeMutant::ForgetsNonces, "authenticated"),
        (HandshakeMutant::LeavesWelcomeOpen, "welcomed"),
        (HandshakeMutant::TakesAnyService, "letters"),
        (HandshakeMutant::WelcomesRefused, "refused"),
    ] {
        assert_eq!(explore(mutant), Err(property), "{mutant:?}");
    }
}
