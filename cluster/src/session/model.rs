//! A model of two sessions, explored state by state with stateright.
//!
//! The network is a set: a packet that was sent once can arrive at any time, any number of times, or never. So every
//! loss, repetition and reordering is explored without a budget. Time stands still, and all time-outs are zero: every
//! timer may fire at any time. Links break and are made anew at any time, and a process may crash.

use std::collections::BTreeSet;
use std::time::Duration;

use stateright::{Checker, Model, Property};

use super::mutant::Mutant;
use super::{Outcome, Packet, Session, SessionSettings};
use crate::peer::{Peer, ProcessId};

const NOW: Duration = Duration::ZERO;

fn peer(number: u32) -> Peer {
    ProcessId::new(number).unwrap().first_life()
}

#[derive(Clone, Copy)]
struct Pair {
    /// The number of messages that each side sends.
    messages: [u8; 2],
    /// The number of times that a link breaks.
    breaks: u8,
    crash: bool,
    mutant: Mutant,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Sessions {
    /// The sessions; `None` after the side's end.
    sessions: [Option<Session<u8>>; 2],
    is_connected: bool,
    network: BTreeSet<(usize, Packet<u8>)>,
    sent: [u8; 2],
    delivered: [Vec<u8>; 2],
    /// The fate of each message: `None` if the peer has delivered it.
    outcomes: [Vec<(u64, Option<Outcome>)>; 2],
    breaks: u8,
    crashed: Option<usize>,
    violation: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Action {
    Send(usize),
    Arrive(usize, Packet<u8>),
    Tick(usize),
    Connect,
    Break,
    Crash(usize),
    /// The survivor learns of the death.
    End(usize),
}

impl Sessions {
    fn transmit(&mut self, side: usize, packets: impl IntoIterator<Item = Packet<u8>>) {
        self.network
            .extend(packets.into_iter().map(|packet| (1 - side, packet)));
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Send(side) => {
                let message = self.sent[side] + 1;
                if let Some(Ok((_, packet))) = self.sessions[side].as_mut().map(|it| it.send(NOW, message, 1))
                {
                    self.sent[side] = message;
                    self.transmit(side, packet);
                }
            }
            Action::Arrive(side, packet) => {
                match self.sessions[side].as_mut().map(|it| it.received(NOW, packet, 1)) {
                    Some(Ok(received)) => {
                        let settled = received.settled.map(|sequence| (sequence, None));
                        self.outcomes[side].extend(settled);
                        self.delivered[side].extend(received.messages);
                    }
                    Some(Err(_)) => self.violation = true,
                    None => {}
                }
            }
            Action::Tick(side) => {
                let packets = self.sessions[side].as_mut().map(|it| it.tick(NOW));
                self.transmit(side, packets.unwrap_or_default());
            }
            Action::Connect => {
                self.is_connected = true;
                for side in 0..2 {
                    let remote = peer(2 - side as u32);
                    let packets = self.sessions[side]
                        .as_mut()
                        .map(|it| it.connected(NOW, remote).unwrap());
                    self.transmit(side, packets.unwrap_or_default());
                }
            }
            Action::Break => {
                (self.is_connected, self.breaks) = (false, self.breaks + 1);
                self.sessions.iter_mut().flatten().for_each(Session::disconnected);
            }
            Action::Crash(side) => (self.sessions[side], self.crashed) = (None, Some(side)),
            Action::End(side) => {
                let left = self.sessions[side].take().map(Session::end);
                let left = left.unwrap_or_default().into_iter();
                self.outcomes[side].extend(left.map(|(sequence, outcome)| (sequence, Some(outcome))));
            }
        }
    }

    /// SESSION-1: each side has delivered the other's messages from the first one on, each once and in order.
    fn is_in_order(&self) -> bool {
        let counts = |messages: &Vec<u8>| messages.iter().zip(1..).all(|(found, number)| *found == number);
        self.delivered.iter().all(counts)
    }

    /// SESSION-4: what is settled was delivered, and what is `NotSent` was not.
    fn tells_the_truth(&self) -> bool {
        (0..2).all(|side| {
            let there = self.delivered[1 - side].len() as u64;
            self.outcomes[side]
                .iter()
                .all(|(sequence, outcome)| match outcome {
                    None => *sequence <= there,
                    Some(Outcome::NotSent) => *sequence > there,
                    Some(Outcome::Unknown) => self.crashed.is_some(),
                })
        })
    }

    /// SESSION-3, SESSION-5: every message has arrived or has an outcome, each exactly one.
    fn is_settled(&self, pair: &Pair) -> bool {
        (0..2).all(|side| {
            let outcomes = self.outcomes[side].iter().map(|(sequence, _)| *sequence);
            let sent = u64::from(self.sent[side]);
            let arrived = self.crashed.is_some() || self.delivered[1 - side].len() as u64 == sent;
            let is_done = self.crashed.is_some() || self.sent == pair.messages;
            self.crashed == Some(side) || arrived && is_done && outcomes.eq(1..=sent)
        })
    }
}

impl Model for Pair {
    type State = Sessions;
    type Action = Action;

    fn init_states(&self) -> Vec<Sessions> {
        let settings = SessionSettings {
            frames_max: 2,
            resend_first: NOW,
            resend_max: NOW,
            acknowledge_after: NOW,
            ..SessionSettings::default()
        };
        let session = |local, remote| {
            let mut session = Session::new(peer(local), peer(remote), settings);
            session.mutant = self.mutant;
            Some(session)
        };
        vec![Sessions {
            sessions: [session(1, 2), session(2, 1)],
            is_connected: false,
            network: BTreeSet::new(),
            sent: [0; 2],
            delivered: [Vec::new(), Vec::new()],
            outcomes: [Vec::new(), Vec::new()],
            breaks: 0,
            crashed: None,
            violation: false,
        }]
    }

    fn actions(&self, state: &Sessions, actions: &mut Vec<Action>) {
        for side in 0..2 {
            if state.sent[side] < self.messages[side] {
                actions.push(Action::Send(side));
            }
            actions.push(Action::Tick(side));
            match state.crashed {
                None if self.crash => actions.push(Action::Crash(side)),
                Some(crashed) if crashed != side => actions.push(Action::End(side)),
                _ => {}
            }
        }
        if state.is_connected && state.breaks < self.breaks {
            actions.push(Action::Break);
        }
        if !state.is_connected {
            actions.push(Action::Connect);
        }
        let arrivals = state.network.iter().cloned();
        actions.extend(arrivals.map(|(side, packet)| Action::Arrive(side, packet)));
    }

    fn next_state(&self, state: &Sessions, action: Action) -> Option<Sessions> {
        let mut next = state.clone();
        next.act(action);
        Some(next).filter(|next| next != state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("in order", |_, state: &Sessions| state.is_in_order()),
            Property::always("true outcomes", |_, state: &Sessions| state.tells_the_truth()),
            Property::always("no violation", |_, state: &Sessions| !state.violation),
            Property::eventually("all settled", |model, state: &Sessions| state.is_settled(model)),
        ]
    }
}

const PAIR: Pair = Pair {
    messages: [3, 1],
    breaks: 1,
    crash: false,
    mutant: Mutant::None,
};

/// Explores all states. Returns the names of the properties that do not hold.
fn faults(pair: Pair) -> Vec<&'static str> {
    let checker = pair.checker().threads(1).spawn_bfs().join();
    let mut faults: Vec<_> = checker.discoveries().into_keys().collect();
    faults.sort_unstable();
    println!(
        "{:?}: {} states, {faults:?}",
        pair.mutant,
        checker.unique_state_count()
    );
    faults
}

#[test]
fn jrem_10_a_session_delivers_each_message_once_and_in_order() {
    assert!(faults(PAIR).is_empty());
}

#[test]
fn rref_41_a_crash_leaves_each_message_one_true_outcome() {
    let crash = Pair {
        messages: [3, 0],
        crash: true,
        ..PAIR
    };
    assert!(faults(crash).is_empty());
}

#[test]
fn mutants_of_the_session_are_found() {
    for (mutant, fault) in [
        (Mutant::SequencePerLink, "in order"),
        (Mutant::AcknowledgesEarly, "true outcomes"),
        (Mutant::DeliversEarly, "in order"),
        (Mutant::ForgetsHandOver, "true outcomes"),
    ] {
        let found = faults(Pair {
            messages: [2, 0],
            crash: true,
            mutant,
            ..PAIR
        });
        assert!(found.contains(&fault), "{mutant:?}: {found:?}");
    }
}
