//! Aliases over several owners, whose messages overtake each other, and one of whom may die.
//!
//! - `no circle` (ALIAS-T3): the decided aliases of all living owners form none;
//! - `lowest wins`: of the claims of a circle, at least one is made, and the lowest one is never refused for it;
//! - `ends`: every claim of a living owner is made or refused, and no message is left.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use stateright::{Model, Property};

use super::peer;
use crate::alias::mutant::AliasMutant;
use crate::alias::{AliasError, AliasMessage, AliasRace, AliasTable, RaceAction, Target};
use crate::refs::RefId;

#[derive(Clone, Debug)]
pub(super) struct Owners {
    /// The aliases that are asked for, at any time, each once.
    pub(super) claims: Vec<(RefId, RefId)>,
    /// Whether exactly one of the claims has to be refused, because all of them are one circle.
    pub(super) is_circle: bool,
    /// An owner that may die at any time.
    pub(super) mortal: Option<u32>,
    pub(super) mutant: AliasMutant,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Race {
    owners: BTreeMap<u32, AliasRace>,
    net: BTreeSet<(u32, AliasMessage)>,
    open: BTreeSet<usize>,
    outcomes: BTreeMap<RefId, Result<(), AliasError>>,
    has_died: bool,
    /// Those who do not know of the death yet.
    unaware: BTreeSet<u32>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum RaceMove {
    Claim(usize),
    Deliver(u32, AliasMessage),
    Die,
    Learn(u32),
}

impl Race {
    fn perform(&mut self, from: u32, actions: Vec<RaceAction>, dead: Option<u32>) {
        for action in actions {
            match action {
                RaceAction::Send { to, message } => {
                    let to = to.process.number();
                    assert_ne!(to, from, "a message to itself");
                    if dead != Some(to) {
                        self.net.insert((to, message));
                    }
                }
                RaceAction::Made { alias } => self.note(alias, Ok(())),
                RaceAction::Refused { alias, error } => self.note(alias, Err(error)),
            }
        }
    }

    fn note(&mut self, alias: RefId, outcome: Result<(), AliasError>) {
        assert!(self.outcomes.insert(alias, outcome).is_none(), "two outcomes");
    }

    /// The decided target of a reference of a living owner.
    fn target(&self, id: RefId) -> Option<RefId> {
        match self.owners.get(&id.owner.process.number())?.table().target(id)? {
            Target::Alias(target) => Some(target),
            _ => None,
        }
    }

    fn has_no_circle(&self, claims: &[(RefId, RefId)]) -> bool {
        let ends = |id: RefId| {
            let chain = std::iter::successors(Some(id), |at| self.target(*at));
            chain.take(claims.len() + 2).count() <= claims.len() + 1
        };
        claims.iter().all(|(alias, _)| ends(*alias))
    }

    fn is_over(&self) -> bool {
        self.net.is_empty()
            && self.open.is_empty()
            && self.unaware.is_empty()
            && self.owners.values().all(AliasRace::is_at_rest)
    }
}

impl Owners {
    fn dead(&self, state: &Race) -> Option<u32> {
        self.mortal.filter(|_| state.has_died)
    }
}

impl Model for Owners {
    type State = Race;
    type Action = RaceMove;

    fn init_states(&self) -> Vec<Race> {
        let mut owners: BTreeMap<u32, AliasTable> = BTreeMap::new();
        for id in self.claims.iter().flat_map(|(alias, target)| [alias, target]) {
            let owner = id.owner.process.number();
            let table = owners
                .entry(owner)
                .or_insert_with(|| AliasTable::new(peer(owner)));
            table.mutant = self.mutant;
            table.register(*id);
        }
        vec![Race {
            owners: owners
                .into_iter()
                .map(|(owner, table)| (owner, AliasRace::new(table)))
                .collect(),
            net: BTreeSet::new(),
            open: (0..self.claims.len()).collect(),
            outcomes: BTreeMap::new(),
            has_died: false,
            unaware: BTreeSet::new(),
        }]
    }

    fn actions(&self, state: &Race, moves: &mut Vec<RaceMove>) {
        moves.extend(state.open.iter().map(|claim| RaceMove::Claim(*claim)));
        let messages = state.net.iter();
        moves.extend(messages.map(|(to, message)| RaceMove::Deliver(*to, message.clone())));
        if self.mortal.is_some() && !state.has_died {
            moves.push(RaceMove::Die);
        }
        moves.extend(state.unaware.iter().map(|owner| RaceMove::Learn(*owner)));
    }

    fn next_state(&self, state: &Race, turn: RaceMove) -> Option<Race> {
        let mut next = state.clone();
        let dead = self.dead(state);
        match turn {
            RaceMove::Claim(claim) => {
                next.open.remove(&claim);
                let (alias, target) = self.claims[claim];
                let owner = alias.owner.process.number();
                match next.owners.get_mut(&owner)?.claim(alias, target) {
                    Ok(actions) => next.perform(owner, actions, dead),
                    Err(error) => next.note(alias, Err(error)),
                }
            }
            RaceMove::Deliver(to, message) => {
                next.net.remove(&(to, message.clone()));
                let actions = next.owners.get_mut(&to)?.hear(message);
                next.perform(to, actions, dead);
            }
            RaceMove::Die => {
                let mortal = self.mortal?;
                next.has_died = true;
                next.owners.remove(&mortal);
                next.net.retain(|(to, _)| *to != mortal);
                next.open
                    .retain(|claim| self.claims[*claim].0.owner != peer(mortal));
                next.unaware = next.owners.keys().copied().collect();
            }
            RaceMove::Learn(owner) => {
                next.unaware.remove(&owner);
                let actions = next.owners.get_mut(&owner)?.died(peer(self.mortal?));
                next.perform(owner, actions, dead);
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no circle", |owners: &Owners, state: &Race| {
                state.has_no_circle(&owners.claims)
            }),
            Property::always("one gives way", |owners: &Owners, state: &Race| {
                let refused = state.outcomes.values().filter(|outcome| outcome.is_err()).count();
                let is_over = state.is_over() && owners.is_circle && owners.mortal.is_none();
                !is_over || refused == 1
            }),
            Property::eventually("ends", |_, state: &Race| state.is_over()),
        ]
    }
}

impl Owners {
    /// The claims that are refused in some end.
    pub(super) fn refusals(&self) -> BTreeSet<RefId> {
        let mut refused = BTreeSet::new();
        let mut seen = HashSet::new();
        let mut open = self.init_states();
        while let Some(state) = open.pop() {
            if !seen.insert(state.clone()) {
                continue;
            }
            let outcomes = state.outcomes.iter();
            refused.extend(
                outcomes
                    .filter(|(_, outcome)| outcome.is_err())
                    .map(|(alias, _)| *alias),
            );
            let mut moves = Vec::new();
            self.actions(&state, &mut moves);
            open.extend(moves.into_iter().filter_map(|turn| self.next_state(&state, turn)));
        }
        refused
    }
}
