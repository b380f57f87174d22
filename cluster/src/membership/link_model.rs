//! A model of the link of a pair (M10), explored state by state with stateright: the higher number dials, both may want a
//! link at once, links break on one side before the other, and strangers dial.
//!
//! Time stands still, and a link that is needed has no end of its time unless the model says so.

use std::time::Duration;

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::mutant::MemberMutant;
use super::*;
use crate::peer::{Incarnation, Peer, ProcessId};

const NOW: Duration = Duration::ZERO;
/// The properties that have to hold in some state.
const GOALS: [&str; 2] = ["a link is used by both", "a link is made again"];
const LOWER: usize = 0;
const HIGHER: usize = 1;

fn peer(side: usize) -> Peer {
    Peer {
        process: ProcessId::new(2 + side as u32).unwrap(),
        incarnation: Incarnation(1),
    }
}

#[derive(Clone, Copy)]
struct PairModel {
    needs: u8,
    links: u64,
    breaks: u8,
    mutant: MemberMutant,
}

/// A link as the transport sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Wire {
    name: LinkName,
    /// Whether the other end is a stranger, who does not know the cookie.
    is_strange: bool,
    /// Whether each end is open.
    is_open: [bool; 2],
    /// Whether the handshake has ended at each end.
    is_authenticated: [bool; 2],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Wires {
    pairs: [PairLink; 2],
    links: Vec<Wire>,
    dials: u8,
    is_asked: bool,
    needs: u8,
    breaks: u8,
    made: u64,
    strangers: u8,
    is_stranger_heard: bool,
    is_wrongly_dialled: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum WireAction {
    Need(usize),
    /// The head passes the question on.
    Ask,
    /// A dial that is to be made reaches the other side.
    Connect,
    Stranger,
    /// The handshake of a link ends at a side, rightly or not.
    Shake(usize, usize, bool),
    Break(usize),
    /// A side learns that the other one has closed the link.
    Lost(usize, usize),
    Again(usize),
    /// A frame arrives at the accepting side before the handshake, or at any time.
    Frame(usize, usize),
}

impl Wires {
    fn perform(&mut self, side: usize, steps: Vec<LinkStep>) {
        for step in steps {
            match step {
                LinkStep::Dial => {
                    self.is_wrongly_dialled |= side != HIGHER;
                    self.dials += 1;
                }
                LinkStep::AskToDial => self.is_asked = true,
                LinkStep::Close(name) => {
                    let link = self.links.iter_mut().find(|link| link.name == name);
                    link.unwrap().is_open[side] = false;
                }
                LinkStep::Use(_) | LinkStep::Fail(_) => {}
            }
        }
    }

    fn act(&mut self, action: WireAction) {
        match action {
            WireAction::Need(side) => {
                self.needs += 1;
                let steps = self.pairs[side].need(NOW);
                self.perform(side, steps);
            }
            WireAction::Ask => {
                self.is_asked = false;
                let steps = self.pairs[HIGHER].asked(NOW);
                self.perform(HIGHER, steps);
            }
            WireAction::Connect => {
                self.dials -= 1;
                let name = self.link(false);
                self.pairs[HIGHER].dialling(name);
            }
            WireAction::Stranger => {
                self.strangers += 1;
                self.link(true);
            }
            WireAction::Shake(at, side, is_right) => self.shake(at, side, is_right),
            WireAction::Break(at) => {
                self.breaks += 1;
                self.links[at].is_open[HIGHER] = false;
                self.pairs[HIGHER].lost(self.links[at].name);
            }
            WireAction::Lost(at, side) => {
                self.links[at].is_open[side] = false;
                let name = self.links[at].name;
                self.pairs[side].lost(name);
                if side == HIGHER && !self.links[at].is_authenticated[HIGHER] {
                    let steps = self.pairs[HIGHER].dialled(NOW, name, Err("it was closed".to_owned()));
                    self.perform(HIGHER, steps);
                }
            }
            WireAction::Again(side) => {
                let later = self.pairs[side].deadline().unwrap_or(NOW);
                let steps = self.pairs[side].tick(later);
                self.perform(side, steps);
            }
            WireAction::Frame(at, side) => {
                let link = &self.links[at];
                let is_heard = self.pairs[side].admits(link.name);
                self.is_stranger_heard |= is_heard && !link.is_authenticated[side];
            }
        }
    }

    fn link(&mut self, is_strange: bool) -> LinkName {
        self.made += 1;
        let name = LinkName(self.made);
        self.links.push(Wire {
            name,
            is_strange,
            is_open: [true, !is_strange],
            is_authenticated: [false; 2],
        });
        name
    }

    fn shake(&mut self, at: usize, side: usize, is_right: bool) {
        let name = self.links[at].name;
        self.links[at].is_authenticated[side] = is_right;
        let found = peer(1 - side);
        let steps = match (side, is_right) {
            (HIGHER, true) => self.pairs[HIGHER].dialled(NOW, name, Ok(found)),
            (HIGHER, false) => self.pairs[HIGHER].dialled(NOW, name, Err("wrong cookie".to_owned())),
            (_, true) => self.pairs[LOWER].accepted(name, found),
            (_, false) => vec![LinkStep::Close(name)],
        };
        self.perform(side, steps);
    }

    /// The links that both sides have open and authenticated.
    fn live(&self) -> usize {
        let is_live = |link: &&Wire| link.is_open == [true; 2] && link.is_authenticated == [true; 2];
        self.links.iter().filter(is_live).count()
    }

    /// Nothing is under way, and a side that needs a link has one or was told that there is none.
    fn is_at_rest(&self) -> bool {
        self.dials == 0 && !self.is_asked
    }
}

impl Model for PairModel {
    type State = Wires;
    type Action = WireAction;

    fn init_states(&self) -> Vec<Wires> {
        let pair = |side: usize| {
            let mut pair = PairLink::new(
                peer(side).process,
                peer(1 - side),
                Dialer::Higher,
                Duration::from_secs(60),
            );
            pair.mutant = self.mutant;
            pair
        };
        vec![Wires {
            pairs: [pair(LOWER), pair(HIGHER)],
            links: Vec::new(),
            dials: 0,
            is_asked: false,
            needs: 0,
            breaks: 0,
            made: 0,
            strangers: 0,
            is_stranger_heard: false,
            is_wrongly_dialled: false,
        }]
    }

    fn actions(&self, state: &Wires, actions: &mut Vec<WireAction>) {
        for side in [LOWER, HIGHER] {
            if state.needs < self.needs {
                actions.push(WireAction::Need(side));
            }
            actions.push(WireAction::Again(side));
        }
        if state.is_asked {
            actions.push(WireAction::Ask);
        }
        if state.made < self.links {
            if state.dials > 0 {
                actions.push(WireAction::Connect);
            }
            if state.strangers == 0 {
                actions.push(WireAction::Stranger);
            }
        }
        for (at, link) in state.links.iter().enumerate() {
            for side in [LOWER, HIGHER] {
                if !link.is_open[side] {
                    continue;
                }
                actions.push(WireAction::Frame(at, side));
                if !link.is_authenticated[side] {
                    // The dialer's handshake ends with the listener's welcome.
                    if !link.is_strange && (side == LOWER || link.is_authenticated[LOWER]) {
                        actions.push(WireAction::Shake(at, side, true));
                    }
                    if side == LOWER {
                        actions.push(WireAction::Shake(at, side, false));
                    }
                }
                if !link.is_open[1 - side] && !link.is_strange {
                    actions.push(WireAction::Lost(at, side));
                }
            }
            if link.is_open[HIGHER] && link.is_authenticated[HIGHER] && state.breaks < self.breaks {
                actions.push(WireAction::Break(at));
            }
        }
    }

    fn next_state(&self, state: &Wires, action: WireAction) -> Option<Wires> {
        let mut next = state.clone();
        next.act(action);
        Some(next).filter(|next| next != state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one link a pair", |_, state: &Wires| state.live() <= 1),
            Property::always("no stranger is heard", |_, state: &Wires| {
                !state.is_stranger_heard
            }),
            Property::always("the higher number dials", |_, state: &Wires| {
                !state.is_wrongly_dialled
            }),
            Property::sometimes(GOALS[0], |_, state: &Wires| {
                let used = state.pairs[LOWER].used();
                used.is_some() && used == state.pairs[HIGHER].used() && state.is_at_rest()
            }),
            Property::sometimes(GOALS[1], |_, state: &Wires| {
                state.breaks > 0
                    && state.live() == 1
                    && state.pairs[LOWER].used() == state.pairs[HIGHER].used()
            }),
        ]
    }
}

/// Explores all states. Returns the names of the properties that do not hold.
fn faults(model: PairModel) -> Vec<&'static str> {
    let checker = model
        .checker()
        .threads(1)
        .finish_when(HasDiscoveries::AnyFailures);
    let checker = checker.spawn_bfs().join();
    let found: Vec<_> = checker.discoveries().into_keys().collect();
    let mut faults: Vec<_> = found
        .iter()
        .copied()
        .filter(|name| !GOALS.contains(name))
        .collect();
    let is_reached = |goal: &&str| found.contains(goal);
    if faults.is_empty() && !GOALS.iter().all(is_reached) {
        faults.push("no link");
    }
    let (mutant, states) = (model.mutant, checker.unique_state_count());
    println!("M10, links: {mutant:?}: {states} states, {faults:?}");
    faults
}

const PAIR: PairModel = PairModel {
    needs: 3,
    links: 4,
    breaks: 1,
    mutant: MemberMutant::None,
};

#[test]
fn jtopo_07_simultaneous_needs_end_with_one_link_whoever_breaks_it() {
    assert_eq!(faults(PAIR), [""; 0]);
}

#[test]
fn mutants_of_the_link_are_found() {
    for (mutant, fault) in [
        (MemberMutant::KeepsBothLinks, "one link a pair"),
        (MemberMutant::AdmitsStrangers, "no stranger is heard"),
    ] {
        let found = faults(PairModel { mutant, ..PAIR });
        assert!(found.contains(&fault), "{mutant:?}: {found:?}");
    }
}
