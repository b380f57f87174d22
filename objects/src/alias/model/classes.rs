//! The calls in every order, with handles that are dropped at any time.
//!
//! A handle counts as an `Arc` does: the object of an alias holds one on its target; a function that has not returned holds one
//! on its own result, until that is an alias or has a value; and the worker that has run it holds one on the target, until
//! the alias is acknowledged. The properties:
//! - `alive` (A1, A2): no pull and no alias meets a reference that was freed;
//! - `counted` (A3): nothing is freed before it has a value or a target, or twice;
//! - `sound` (A4, ALIAS-T2, ALIAS-T3): aliases are the inverse of targets, and no chain is a circle;
//! - `once` (A5, ALIAS-T1): a target changes at most once;
//! - `alike`: when all calls are over, every reference stands for the one object, whatever the order;
//! - `ends`: all pulls are answered and everything is freed.

use std::collections::{BTreeMap, BTreeSet};

use stateright::{Model, Property};

use super::id;
use crate::alias::mutant::AliasMutant;
use crate::alias::{AliasTable, Resolution, Target};
use crate::refs::RefId;

/// The result that is the object.
pub(super) const OBJECT: u64 = 1;

/// What the caller of the model does wrong; the table's own faults are [`AliasMutant`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carelessness {
    None,
    /// A worker drops its handle on the target before the alias is acknowledged.
    NoAck,
    /// A function that has not returned holds no handle on its result.
    NoHold,
}

#[derive(Clone, Debug)]
pub(super) struct Classes {
    /// Which reference stands for which.
    pub(super) aliases: Vec<(u64, u64)>,
    /// An alias that comes after all others, and has to be refused: a second target, or one that closes a circle.
    pub(super) again: Option<(u64, u64)>,
    pub(super) careless: Carelessness,
    pub(super) mutant: AliasMutant,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ClassWorld {
    table: AliasTable,
    handles: BTreeMap<RefId, u32>,
    calls: BTreeSet<AliasCall>,
    /// The targets that workers hold, by alias.
    held: BTreeMap<RefId, RefId>,
    acknowledged: BTreeSet<RefId>,
    /// The references that the user holds, and has not pulled.
    users: BTreeSet<RefId>,
    pulls: BTreeSet<RefId>,
    decided: BTreeMap<RefId, RefId>,
    fault: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum AliasCall {
    Alias(RefId, RefId),
    Again(RefId, RefId),
    Ready(RefId),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum ClassTurn {
    Call(AliasCall),
    Release(RefId),
    Pull(RefId),
    Drop(RefId),
}

impl ClassWorld {
    fn call(&mut self, call: AliasCall, careless: Carelessness) {
        self.calls.remove(&call);
        match call {
            AliasCall::Alias(alias, target) => {
                self.expect(self.handles.contains_key(&target), "alive");
                if self.table.alias(alias, target).is_ok() {
                    *self.handles.entry(target).or_default() += 1;
                    self.decided.insert(alias, target);
                    self.acknowledged.insert(alias);
                    self.returned(alias, careless);
                }
            }
            AliasCall::Again(alias, target) => {
                let is_refused = self.table.alias(alias, target).is_err();
                self.expect(is_refused, "once");
            }
            AliasCall::Ready(id) => {
                let is_ready = self.table.ready(id).is_ok();
                self.expect(is_ready, "counted");
                self.returned(id, careless);
            }
        }
    }

    fn expect(&mut self, holds: bool, property: &'static str) {
        if !holds {
            self.fault.get_or_insert(property);
        }
    }

    fn returned(&mut self, id: RefId, careless: Carelessness) {
        if careless != Carelessness::NoHold {
            self.release(id);
        }
    }

    /// Drops a handle, and frees what nobody holds: a work list.
    fn release(&mut self, id: RefId) {
        let mut dropped = vec![id];
        while let Some(id) = dropped.pop() {
            let Some(handles) = self.handles.get_mut(&id) else {
                self.expect(false, "counted");
                continue;
            };
            *handles -= 1;
            if *handles == 0 {
                self.handles.remove(&id);
                let is_decided = self.table.target(id) != Some(Target::Unknown);
                self.expect(is_decided, "counted");
                dropped.extend(self.table.remove(id).ok().flatten());
            }
        }
    }
}

impl ClassWorld {
    fn is_over(&self) -> bool {
        let nothing_left = self.handles.is_empty() && self.table.len() == 0;
        nothing_left && self.calls.is_empty() && self.held.is_empty() && self.users.is_empty()
    }
}

impl Classes {
    fn references(&self) -> BTreeSet<RefId> {
        let named = self.aliases.iter().flat_map(|(alias, target)| [*alias, *target]);
        named.map(id).collect()
    }
}

impl Model for Classes {
    type State = ClassWorld;
    type Action = ClassTurn;

    fn init_states(&self) -> Vec<ClassWorld> {
        let mut table = AliasTable::default();
        table.mutant = self.mutant;
        let mut handles: BTreeMap<RefId, u32> = BTreeMap::new();
        let references = self.references();
        for id in &references {
            table.register(*id);
            if self.careless != Carelessness::NoHold {
                *handles.entry(*id).or_default() += 1;
            }
        }
        let held: BTreeMap<_, _> = self
            .aliases
            .iter()
            .map(|(alias, target)| (id(*alias), id(*target)))
            .collect();
        let targets: BTreeSet<_> = held.values().copied().collect();
        let users: BTreeSet<_> = references.difference(&targets).copied().collect();
        for id in held.values().chain(&users) {
            *handles.entry(*id).or_default() += 1;
        }
        let mut calls: BTreeSet<AliasCall> = held
            .iter()
            .map(|(alias, target)| AliasCall::Alias(*alias, *target))
            .collect();
        calls.extend(
            self.again
                .map(|(alias, target)| AliasCall::Again(id(alias), id(target))),
        );
        calls.insert(AliasCall::Ready(id(OBJECT)));
        vec![ClassWorld {
            table,
            handles,
            calls,
            held,
            acknowledged: BTreeSet::new(),
            users,
            pulls: BTreeSet::new(),
            decided: BTreeMap::new(),
            fault: None,
        }]
    }

    fn actions(&self, state: &ClassWorld, turns: &mut Vec<ClassTurn>) {
        for call in &state.calls {
            match call {
                // The call that has to be refused comes after the others.
                AliasCall::Again(..) if state.decided.len() < self.aliases.len() => {}
                call => turns.push(ClassTurn::Call(*call)),
            }
        }
        for alias in state.held.keys() {
            if state.acknowledged.contains(alias) || self.careless == Carelessness::NoAck {
                turns.push(ClassTurn::Release(*alias));
            }
        }
        for user in &state.users {
            if !state.pulls.contains(user) {
                turns.push(ClassTurn::Pull(*user));
            }
            turns.push(ClassTurn::Drop(*user));
        }
    }

    fn next_state(&self, state: &ClassWorld, turn: ClassTurn) -> Option<ClassWorld> {
        let mut next = state.clone();
        match turn {
            ClassTurn::Call(call) => next.call(call, self.careless),
            ClassTurn::Release(alias) => {
                let target = next.held.remove(&alias)?;
                next.release(target);
            }
            ClassTurn::Pull(id) => match next.table.resolve(id) {
                Ok(Resolution::Canonical(end)) => {
                    next.expect(next.handles.contains_key(&end), "alive");
                    next.pulls.insert(id);
                }
                Ok(_) => return None,
                Err(_) => next.expect(false, "alive"),
            },
            ClassTurn::Drop(id) => {
                next.users.remove(&id);
                next.release(id);
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("alive", |_, state: &ClassWorld| state.fault != Some("alive")),
            Property::always("counted", |_, state: &ClassWorld| state.fault != Some("counted")),
            Property::always("once", |_, state: &ClassWorld| state.fault != Some("once")),
            Property::always("sound", |_, state: &ClassWorld| state.table.is_sound()),
            Property::always("alike", |classes: &Classes, state: &ClassWorld| {
                let mut table = state.table.clone();
                let mut stands = |id: &RefId| match table.resolve(*id) {
                    Ok(Resolution::Canonical(end)) => end == self::id(OBJECT),
                    _ => !state.handles.contains_key(id),
                };
                !state.calls.is_empty() || classes.references().iter().all(&mut stands)
            }),
            Property::always("targets", |_, state: &ClassWorld| {
                let of = |(alias, target): (&RefId, &RefId)| {
                    let is = state.table.target(*alias);
                    is.is_none_or(|is| is == Target::Alias(*target))
                };
                state.decided.iter().all(of)
            }),
            Property::eventually("ends", |_, state: &ClassWorld| state.is_over()),
        ]
    }
}
