//! The names of a runtime, at its head.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound::{Excluded, Included, Unbounded};

use selvedge_cluster::peer::Peer;

use super::mutant::NameMutant;
use super::{
    NAMES_MAX, NameAction, NameAnswer, NameChange, NameEvent, NameRefusal, NamedObject, NamingId, check_name,
};

/// The number of names whose owners have died that are remembered, so that who looks for one is told why it is gone.
const LOST_MAX: usize = 256;

/// The number of names on each side of an unknown one that its seeker is told.
const BESIDE_MAX: usize = 32;

/// The names of a runtime, at its head.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NameTable {
    me: Peer,
    /// The number of namings so far.
    namings: u64,
    entries: BTreeMap<String, NameEntry>,
    /// The names that went last with the owners of their objects, the oldest one first.
    lost: VecDeque<(String, Peer)>,
    /// Whether this head goes on for one before it: processes may hold what it does not know.
    is_restored: bool,
    mutant: NameMutant,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct NameEntry {
    object: NamedObject,
    /// The question of the process that waits until the owner holds the object; `None` once it does, and the name is there.
    asked: Option<(Peer, u64)>,
}

impl NameTable {
    /// The table of a head without names.
    #[must_use]
    pub fn new(me: Peer) -> Self {
        NameTable {
            me,
            namings: 0,
            entries: BTreeMap::new(),
            lost: VecDeque::new(),
            is_restored: false,
            mutant: NameMutant::None,
        }
    }

    /// The table of a head that goes on for the one that has recorded these changes. It must be another peer than that one. Each process that
    /// lives is to be told to it as [`NameEvent::Joined`], and each owner that does not as [`NameEvent::Dead`].
    #[must_use]
    pub fn restored(me: Peer, changes: impl IntoIterator<Item = NameChange>) -> Self {
        let mut table = NameTable::new(me);
        table.is_restored = true;
        for change in changes {
            match change {
                NameChange::Named(object) => {
                    let (name, asked) = (object.name.clone(), None);
                    table.entries.insert(name, NameEntry { object, asked });
                }
                NameChange::Unnamed { name } => {
                    table.entries.remove(&name);
                }
            }
        }
        table
    }

    #[cfg(test)]
    pub(super) fn with_mutant(mut self, mutant: NameMutant) -> Self {
        self.mutant = mutant;
        self
    }

    /// The names that are there, in their order.
    pub fn named(&self) -> impl Iterator<Item = &NamedObject> {
        self.entries
            .values()
            .filter(|it| it.asked.is_none())
            .map(|it| &it.object)
    }

    /// The names on both sides of this one, in their order.
    fn beside(&self, name: &str) -> Vec<String> {
        let is_there = |(_, entry): &(&String, &NameEntry)| entry.asked.is_none();
        let before = self.entries.range::<str, _>((Unbounded, Excluded(name))).rev();
        let after = self.entries.range::<str, _>((Included(name), Unbounded));
        let before = before.filter(is_there).take(BESIDE_MAX);
        let beside = before.chain(after.filter(is_there).take(BESIDE_MAX));
        beside.map(|(name, _)| name.clone()).collect()
    }

    /// Takes note of an event. Returns what has to be done about it, in this order.
    pub fn step(&mut self, event: NameEvent) -> Vec<NameAction> {
        match event {
            NameEvent::Name {
                from,
                question,
                name,
                type_name,
                id,
            } => {
                let naming = self.next_naming();
                let object = NamedObject {
                    name,
                    naming,
                    id,
                    type_name,
                    namer: from,
                };
                self.name(object, question)
            }
            NameEvent::Find { from, question, name } => {
                let found = self.find(&name).map(|object| NameAnswer::Found(object.clone()));
                vec![answer(from, question, found)]
            }
            NameEvent::Unname { from, question, name } => self.unname((from, question), &name),
            NameEvent::Held {
                from,
                name,
                naming,
                refused,
            } => self.held(from, &name, naming, refused),
            NameEvent::Unasked { object, why } => self.unasked(&object, why),
            NameEvent::Joined(to) if self.is_restored && self.mutant != NameMutant::RecallsNothing => {
                vec![NameAction::Recall { to }]
            }
            NameEvent::Joined(_) => Vec::new(),
            NameEvent::Holding { from, objects } => self.holding(from, objects),
            NameEvent::Dead(peer) => self.dead(peer),
        }
    }

    fn next_naming(&mut self) -> NamingId {
        self.namings += 1;
        let mut head = self.me;
        if self.mutant == NameMutant::RepeatsNamings {
            head.incarnation.0 = 0;
        }
        NamingId {
            head,
            number: self.namings,
        }
    }

    /// An object gets the name once its owner holds it. Until then nobody finds the name, and nobody else can have it.
    fn name(&mut self, object: NamedObject, question: u64) -> Vec<NameAction> {
        let namer = object.namer;
        if let Err(refusal) = self.check(&object) {
            return vec![answer(namer, question, Err(refusal))];
        }
        self.lost.retain(|(name, _)| *name != object.name);
        let asked = (namer, question);
        let entry = NameEntry {
            object: object.clone(),
            asked: Some(asked),
        };
        self.entries.insert(object.name.clone(), entry);
        let mut actions = vec![NameAction::Hold(object.clone())];
        if self.mutant == NameMutant::NamesAtOnce {
            actions.extend(self.publish(&object.name));
        }
        actions
    }

    fn check(&self, object: &NamedObject) -> Result<(), NameRefusal> {
        check_name(&object.name, &object.type_name)?;
        match self.entries.get(&object.name) {
            Some(_) if self.mutant == NameMutant::LastWins => Ok(()),
            Some(taken) if taken.asked.is_some() && self.mutant == NameMutant::ForgetsTheAsked => Ok(()),
            Some(taken) => Err(NameRefusal::Taken {
                by: taken.object.namer,
            }),
            None if self.entries.len() >= NAMES_MAX => Err(NameRefusal::TooMany { limit: NAMES_MAX }),
            None => Ok(()),
        }
    }

    /// The object that has a name.
    fn find(&self, name: &str) -> Result<&NamedObject, NameRefusal> {
        match self.entries.get(name) {
            Some(entry) if entry.asked.is_none() => Ok(&entry.object),
            _ => match self.lost.iter().find(|(lost, _)| lost == name) {
                Some((_, owner)) => Err(NameRefusal::OwnerDead(*owner)),
                None => Err(NameRefusal::Unknown {
                    beside: self.beside(name),
                }),
            },
        }
    }

    fn unname(&mut self, (from, question): (Peer, u64), name: &str) -> Vec<NameAction> {
        let (to, naming) = match self.find(name) {
            Ok(object) => (object.id.owner, object.naming),
            Err(refusal) => return vec![answer(from, question, Err(refusal))],
        };
        self.entries.remove(name);
        let mut actions = vec![unnamed(name)];
        if self.mutant != NameMutant::UnholdsNothing {
            actions.push(NameAction::Unhold { to, naming });
        }
        if self.mutant == NameMutant::UnholdsFirst {
            actions.reverse();
        }
        actions.push(answer(from, question, Ok(NameAnswer::Done)));
        actions
    }

    /// The entry of a name whose owner was asked under this naming, and has not answered.
    fn asked(&self, from: Peer, name: &str, naming: NamingId) -> Option<(Peer, u64)> {
        let entry = self.entries.get(name)?;
        let is_it = entry.object.naming == naming && entry.object.id.owner == from;
        entry.asked.filter(|_| is_it)
    }

    fn held(&mut self, from: Peer, name: &str, naming: NamingId, refused: Option<String>) -> Vec<NameAction> {
        let Some((namer, question)) = self.asked(from, name, naming) else {
            return Vec::new();
        };
        match refused {
            None => self.publish(name),
            Some(why) => {
                self.entries.remove(name);
                vec![answer(namer, question, Err(NameRefusal::Unheld { why }))]
            }
        }
    }

    /// The owner holds the object: the name is there.
    fn publish(&mut self, name: &str) -> Vec<NameAction> {
        let mut actions = self.entries.get_mut(name).map_or_else(Vec::new, |entry| {
            let record = NameAction::Record(NameChange::Named(entry.object.clone()));
            let asked = entry.asked.take();
            let done = asked.map(|(to, question)| answer(to, question, Ok(NameAnswer::Done)));
            [record].into_iter().chain(done).collect()
        });
        if self.mutant == NameMutant::AnswersFirst {
            actions.reverse();
        }
        actions
    }

    fn unasked(&mut self, object: &NamedObject, why: Option<String>) -> Vec<NameAction> {
        let owner = object.id.owner;
        let Some((namer, question)) = self.asked(owner, &object.name, object.naming) else {
            return Vec::new();
        };
        self.entries.remove(&object.name);
        let refusal = why.map_or(NameRefusal::OwnerDead(owner), |why| NameRefusal::Unheld { why });
        vec![answer(namer, question, Err(refusal))]
    }

    /// Has a process let go what it holds for the head before this one, and whose name is not there: it was never given, or was taken
    /// away.
    fn holding(&mut self, from: Peer, objects: Vec<NamedObject>) -> Vec<NameAction> {
        let is_strange = |object: &NamedObject| {
            let known = self.entries.get(&object.name);
            known.is_none_or(|known| known.object.naming != object.naming)
        };
        let strange = objects
            .into_iter()
            .filter(|object| is_strange(object) && self.mutant != NameMutant::KeepsStrangers);
        let unhold = |object: NamedObject| NameAction::Unhold {
            to: from,
            naming: object.naming,
        };
        strange.map(unhold).collect()
    }

    fn dead(&mut self, dead: Peer) -> Vec<NameAction> {
        if self.mutant == NameMutant::KeepsTheDead {
            return Vec::new();
        }
        let of_dead = |entry: &NameEntry| entry.object.id.owner == dead;
        let gone: Vec<_> = self.entries.extract_if(.., |_, entry| of_dead(entry)).collect();
        let mut actions = Vec::with_capacity(gone.len());
        for (name, entry) in gone {
            match entry.asked {
                Some(_) if self.mutant == NameMutant::TellsNobody => {}
                Some((to, question)) => {
                    actions.push(answer(to, question, Err(NameRefusal::OwnerDead(dead))));
                }
                None => {
                    actions.push(unnamed(&name));
                    self.lost.push_back((name, dead));
                }
            }
        }
        let forgotten = self.lost.len().saturating_sub(LOST_MAX);
        self.lost.drain(..forgotten);
        actions
    }
}

fn answer(to: Peer, question: u64, answer: Result<NameAnswer, NameRefusal>) -> NameAction {
    NameAction::Answer {
        to,
        question,
        answer: answer.unwrap_or_else(NameAnswer::Refused),
    }
}

fn unnamed(name: &str) -> NameAction {
    NameAction::Record(NameChange::Unnamed {
        name: name.to_owned(),
    })
}
