//! Random histories of a head, owners and jobs, beside a log that knows every name. Letters between two keep their order, but for those
//! with a reference, which may wait for it; processes die and come back, and the head goes on from its log.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::Config;
use selvedge_cluster::peer::{Incarnation, Peer, ProcessId};

use super::mutant::NameMutant;
use super::*;
use crate::mutants::{assert_breaks, fault_of_a_history};
use crate::refs::RefId;

const HEAD: u32 = 1;
/// All processes: each asks, and owns objects.
const ALL: [u32; 4] = [HEAD, 2, 3, 4];
const NAMES: [&str; 2] = ["a", "b"];

#[derive(Clone, Debug)]
enum NamingStep {
    Name {
        by: Index,
        name: Index,
        owner: Index,
    },
    Find {
        by: Index,
        name: Index,
    },
    Unname {
        by: Index,
        name: Index,
    },
    /// The next letter between two arrives. One with a reference may wait for it.
    Deliver {
        which: Index,
        waits: bool,
    },
    /// The reference of a letter is there; the owner may refuse to hold the object.
    Arrive {
        which: Index,
        is_refused: bool,
    },
    /// A process is killed, perhaps after so many of the actions that it performs next.
    Kill {
        whom: Index,
        after: Option<usize>,
    },
}

fn steps() -> impl Strategy<Value = Vec<NamingStep>> {
    let index = any::<Index>;
    let step = prop_oneof![
        4 => (index(), index(), index()).prop_map(|(by, name, owner)| NamingStep::Name { by, name, owner }),
        3 => (index(), index()).prop_map(|(by, name)| NamingStep::Find { by, name }),
        2 => (index(), index()).prop_map(|(by, name)| NamingStep::Unname { by, name }),
        20 => (index(), prop::bool::weighted(0.3)).prop_map(|(which, waits)| NamingStep::Deliver { which, waits }),
        5 => (index(), prop::bool::weighted(0.1)).prop_map(|(which, is_refused)| NamingStep::Arrive { which, is_refused }),
        1 => (index(), prop::option::of(0_usize..3)).prop_map(|(whom, after)| NamingStep::Kill { whom, after }),
    ];
    prop::collection::vec(step, 0..200)
}

#[derive(Clone, Debug)]
enum Said {
    ToHead(NameEvent),
    Hold(NamedObject),
    Unhold(NamingId),
    Recall,
    Answer(u64),
    Death,
}

struct NameQuestion {
    asker: Peer,
    head: Peer,
    name: String,
    /// The object that is to have the name.
    named: Option<RefId>,
}

struct NamingWorld {
    mutant: NameMutant,
    lives: BTreeMap<u32, u32>,
    table: NameTable,
    held: BTreeMap<u32, HeldNames<()>>,
    /// Between two, in their order.
    flying: BTreeMap<(Peer, Peer), VecDeque<Said>>,
    /// Letters that wait for their reference: sender, receiver.
    waiting: Vec<(Peer, Peer, Said)>,
    log: Vec<NameChange>,
    /// The names as the log has them.
    names: BTreeMap<String, NamedObject>,
    questions: BTreeMap<u64, NameQuestion>,
    numbers: u64,
    /// The number of actions that the head performs before it is killed.
    head_ends: Option<usize>,
}

fn peer(number: u32, life: u32) -> Peer {
    Peer {
        process: ProcessId::new(number).unwrap(),
        incarnation: Incarnation(life),
    }
}

impl NamingWorld {
    fn new(mutant: NameMutant) -> Self {
        NamingWorld {
            mutant,
            lives: ALL.into_iter().map(|it| (it, 1)).collect(),
            table: NameTable::new(peer(HEAD, 1)).with_mutant(mutant),
            held: ALL
                .into_iter()
                .map(|it| (it, HeldNames::default().with_mutant(mutant)))
                .collect(),
            flying: BTreeMap::new(),
            waiting: Vec::new(),
            log: Vec::new(),
            names: BTreeMap::new(),
            questions: BTreeMap::new(),
            numbers: 0,
            head_ends: None,
        }
    }

    fn living(&self, number: u32) -> Peer {
        peer(number, self.lives[&number])
    }

    fn is_alive(&self, whom: Peer) -> bool {
        self.living(whom.process.number()) == whom
    }

    fn head(&self) -> Peer {
        self.living(HEAD)
    }

    fn step(&mut self, step: NamingStep) {
        match step {
            NamingStep::Name { by, name, owner } => {
                let (from, owner) = (self.living(*by.get(&ALL)), self.living(*owner.get(&ALL)));
                let name = (*name.get(&NAMES)).to_owned();
                self.numbers += 1;
                let id = RefId {
                    owner,
                    creator: from,
                    number: self.numbers,
                };
                let question = self.ask(from, &name, Some(id));
                let type_name = "T".to_owned();
                let event = NameEvent::Name {
                    from,
                    question,
                    name,
                    type_name,
                    id,
                };
                self.say(from, self.head(), Said::ToHead(event));
            }
            NamingStep::Find { by, name } => {
                let (from, name) = (self.living(*by.get(&ALL)), (*name.get(&NAMES)).to_owned());
                let question = self.ask(from, &name, None);
                let event = NameEvent::Find { from, question, name };
                self.say(from, self.head(), Said::ToHead(event));
            }
            NamingStep::Unname { by, name } => {
                let (from, name) = (self.living(*by.get(&ALL)), (*name.get(&NAMES)).to_owned());
                let question = self.ask(from, &name, None);
                let event = NameEvent::Unname { from, question, name };
                self.say(from, self.head(), Said::ToHead(event));
            }
            NamingStep::Deliver { which, waits } => {
                let ways: Vec<_> = self.flying.keys().copied().collect();
                if !ways.is_empty() {
                    self.deliver(*which.get(&ways), waits);
                }
            }
            NamingStep::Arrive { which, is_refused } => {
                if !self.waiting.is_empty() {
                    let (from, to, said) = self.waiting.remove(which.index(self.waiting.len()));
                    self.arrive(from, to, said, is_refused);
                }
            }
            NamingStep::Kill { whom, after } => match (*whom.get(&ALL), after) {
                (HEAD, Some(after)) => self.head_ends = Some(after),
                (number, _) => self.kill(number),
            },
        }
    }

    fn ask(&mut self, from: Peer, name: &str, named: Option<RefId>) -> u64 {
        self.numbers += 1;
        let question = NameQuestion {
            asker: from,
            head: self.head(),
            name: name.to_owned(),
            named,
        };
        self.questions.insert(self.numbers, question);
        self.numbers
    }

    /// Returns false if the receiver is dead.
    fn say(&mut self, from: Peer, to: Peer, said: Said) -> bool {
        let is_alive = self.is_alive(to);
        if is_alive {
            self.flying.entry((from, to)).or_default().push_back(said);
        }
        is_alive
    }

    fn deliver(&mut self, (from, to): (Peer, Peer), waits: bool) {
        let Some(way) = self.flying.get_mut(&(from, to)) else {
            return;
        };
        let said = way.pop_front().unwrap();
        if way.is_empty() {
            self.flying.remove(&(from, to));
        }
        let has_reference = matches!(said, Said::Hold(_) | Said::ToHead(NameEvent::Name { .. }));
        match has_reference && waits {
            true => self.waiting.push((from, to, said)),
            false => self.arrive(from, to, said, false),
        }
    }

    fn arrive(&mut self, from: Peer, to: Peer, said: Said, is_refused: bool) {
        let head = self.head();
        match said {
            Said::ToHead(event) => self.head_hears(event),
            Said::Hold(object) => {
                let (name, naming) = (object.name.clone(), object.naming);
                let held = self.held.get_mut(&to.process.number()).unwrap();
                let is_held = !is_refused && held.hold(object, ()).is_ok();
                assert!(
                    is_held || is_refused || from != head,
                    "NAME-5: {naming:?} is held twice"
                );
                let refused = (!is_held).then(|| "full".to_owned());
                let event = NameEvent::Held {
                    from: to,
                    name,
                    naming,
                    refused,
                };
                self.say(to, from, Said::ToHead(event));
            }
            Said::Unhold(naming) => {
                let held = self.held.get_mut(&to.process.number()).unwrap();
                held.unhold(naming);
            }
            Said::Recall => {
                let objects = self.held.get_mut(&to.process.number()).unwrap().recall(from);
                self.say(to, from, Said::ToHead(NameEvent::Holding { from: to, objects }));
            }
            Said::Answer(question) => {
                let question = self.questions.remove(&question).expect("NAME-3: one answer");
                assert_eq!((question.asker, question.head), (to, from), "NAME-3");
            }
            Said::Death => {
                // What waits for a reference of a dead one is dropped.
                self.waiting
                    .retain(|(sender, it, _)| !(*sender == from && *it == to));
                if to == head {
                    self.head_hears(NameEvent::Dead(from));
                }
                self.questions.retain(|_, it| (it.asker, it.head) != (to, from));
            }
        }
    }

    fn head_hears(&mut self, event: NameEvent) {
        let actions = self.table.step(event);
        for action in actions {
            if self.head_ends == Some(0) {
                return self.kill(HEAD);
            }
            self.head_ends = self.head_ends.map(|left| left - 1);
            self.perform(action);
        }
        if self.head_ends.is_some() {
            self.kill(HEAD);
        }
    }

    fn perform(&mut self, action: NameAction) {
        let head = self.head();
        match action {
            NameAction::Record(change) => {
                match &change {
                    NameChange::Named(object) => {
                        let before = self.names.insert(object.name.clone(), object.clone());
                        assert!(before.is_none(), "NAME-1: {} has two objects", object.name);
                    }
                    NameChange::Unnamed { name } => assert!(self.names.remove(name).is_some(), "NAME-1"),
                }
                self.log.push(change);
            }
            NameAction::Hold(object) => {
                if !self.say(head, object.id.owner, Said::Hold(object.clone())) {
                    self.head_hears(NameEvent::Unasked { object, why: None });
                }
            }
            NameAction::Unhold { to, naming } => {
                let is_there = self.names.values().any(|object| object.naming == naming);
                assert!(!is_there, "NAME-4: a name outlives its hold");
                self.say(head, to, Said::Unhold(naming));
            }
            NameAction::Recall { to } => {
                self.say(head, to, Said::Recall);
            }
            NameAction::Answer { to, question, answer } => {
                self.check(question, &answer);
                self.say(head, to, Said::Answer(question));
            }
        }
        self.check_names();
    }

    /// An answer says what is so.
    fn check(&self, question: u64, answer: &NameAnswer) {
        let Some(NameQuestion { name, named, .. }) = self.questions.get(&question) else {
            return;
        };
        let known = self.names.get(name);
        match answer {
            NameAnswer::Done => assert_eq!(known.map(|object| object.id), *named, "NAME-1: {name}"),
            NameAnswer::Found(object) => assert_eq!(known, Some(object), "NAME-1: {name}"),
            NameAnswer::Refused(NameRefusal::Unknown { .. } | NameRefusal::OwnerDead(_))
                if named.is_none() =>
            {
                assert_eq!(known, None, "NAME-1: {name}");
            }
            NameAnswer::Refused(_) => {}
        }
    }

    /// The owner of each object with a name holds it, unless it has died.
    fn check_names(&self) {
        for object in self.names.values() {
            let owner = object.id.owner;
            if self.is_alive(owner) {
                let held = &self.held[&owner.process.number()];
                assert!(held.handle(object.naming).is_some(), "NAME-2: {}", object.name);
            }
        }
    }

    fn kill(&mut self, number: u32) {
        let dead = self.living(number);
        *self.lives.get_mut(&number).unwrap() += 1;
        let held = HeldNames::default().with_mutant(self.mutant);
        self.held.insert(number, held);
        self.flying.retain(|(_, to), _| *to != dead);
        self.waiting.retain(|(_, to, _)| *to != dead);
        self.questions.retain(|_, it| it.asker != dead);
        // What it has sent arrives, or the last of it does not.
        for other in ALL.into_iter().filter(|it| *it != number) {
            let other = self.living(other);
            let way = self.flying.entry((dead, other)).or_default();
            way.truncate(way.len() / 2);
            way.push_back(Said::Death);
        }
        if number == HEAD {
            self.restart();
        }
    }

    /// The head goes on from its log. Its own objects are gone, like those of all that died before it.
    fn restart(&mut self) {
        self.head_ends = None;
        let head = self.head();
        self.table = NameTable::restored(head, self.log.iter().cloned()).with_mutant(self.mutant);
        let names: BTreeSet<_> = self
            .table
            .named()
            .cloned()
            .collect::<Vec<_>>()
            .into_iter()
            .map(|it| it.name)
            .collect();
        assert_eq!(
            names,
            self.names.keys().cloned().collect(),
            "the log has the names"
        );
        let owners = self.names.values().map(|object| object.id.owner);
        let dead: BTreeSet<_> = owners.filter(|it| !self.is_alive(*it)).collect();
        for owner in dead {
            self.head_hears(NameEvent::Dead(owner));
        }
        for number in ALL.into_iter().filter(|it| *it != HEAD) {
            self.head_hears(NameEvent::Joined(self.living(number)));
        }
    }

    fn end(mut self) {
        self.head_ends = None;
        loop {
            if let Some((from, to, said)) = self.waiting.pop() {
                self.arrive(from, to, said, false);
            } else if let Some(way) = self.flying.keys().next().copied() {
                self.deliver(way, false);
            } else {
                break;
            }
        }
        assert!(self.questions.is_empty(), "NAME-3: everybody is answered");
        let named: BTreeSet<_> = self
            .table
            .named()
            .map(|object| (object.id, object.naming))
            .collect();
        let held = self.held.values().flat_map(HeldNames::objects);
        let held: BTreeSet<_> = held.map(|object| (object.id, object.naming)).collect();
        assert_eq!(held, named, "NAME-4");
        let logged: BTreeSet<_> = self
            .names
            .values()
            .map(|object| (object.id, object.naming))
            .collect();
        assert_eq!(logged, named, "the log has the names");
    }
}

fn run(mutant: NameMutant, steps: Vec<NamingStep>) {
    let mut world = NamingWorld::new(mutant);
    steps.into_iter().for_each(|step| world.step(step));
    world.end();
}

proptest! {
    #![proptest_config(Config { cases: 2_000, failure_persistence: Option::None, ..Config::default() })]

    #[test]
    fn rft_07_names_are_held_by_their_owners_whoever_dies_the_head_too(steps in steps()) {
        run(NameMutant::None, steps);
    }
}

#[test]
fn every_mutant_of_names_is_found() {
    use NameMutant::*;
    for (mutant, invariant) in [
        (NamesAtOnce, "NAME-2"),
        (LastWins, "NAME-1"),
        (ForgetsTheAsked, "NAME-3"),
        (UnholdsNothing, "NAME-4"),
        (KeepsTheDead, "NAME-3"),
        (TellsNobody, "NAME-3"),
        (UnholdsFirst, "NAME-4"),
        (AnswersFirst, "NAME-1"),
        (KeepsStrangers, "NAME-4"),
        (RecallsNothing, "NAME-4"),
        (HeedsTheDead, "NAME-4"),
        (RepeatsNamings, "NAME-5"),
    ] {
        let fault = fault_of_a_history(&steps(), |steps| run(mutant, steps));
        assert_breaks(mutant, invariant, fault);
    }
}

#[test]
fn an_answer_that_was_not_asked_for_and_a_name_without_end_change_nothing() {
    let (head, owner, other) = (peer(1, 1), peer(2, 1), peer(3, 1));
    let mut table = NameTable::new(head);
    let id = RefId {
        owner,
        creator: other,
        number: 1,
    };
    let name = |name: &str, type_name: &str| NameEvent::Name {
        from: other,
        question: 7,
        name: name.to_owned(),
        type_name: type_name.to_owned(),
        id,
    };
    let actions = table.step(name("a", "T"));
    let [NameAction::Hold(object)] = &actions[..] else {
        panic!("{actions:?}")
    };
    let held = |from, number| NameEvent::Held {
        from,
        name: "a".to_owned(),
        naming: NamingId { head, number },
        refused: None,
    };
    assert!(
        table.step(held(other, object.naming.number)).is_empty(),
        "not the owner"
    );
    assert!(
        table.step(held(owner, object.naming.number + 1)).is_empty(),
        "another naming"
    );
    assert_eq!(table.named().count(), 0);
    assert_eq!(table.step(held(owner, object.naming.number)).len(), 2);
    assert!(table.step(held(owner, object.naming.number)).is_empty(), "once");

    let long = "x".repeat(NAME_BYTES_MAX + 1);
    let long_type = "x".repeat(TYPE_BYTES_MAX + 1);
    for event in [
        name("", "T"),
        name(&long, "T"),
        name("b", &long_type),
        name("a", "T"),
    ] {
        let actions = table.step(event);
        assert!(
            matches!(
                &actions[..],
                [NameAction::Answer {
                    answer: NameAnswer::Refused(_),
                    ..
                }]
            ),
            "{actions:?}"
        );
    }
    let sought = table.step(NameEvent::Find {
        from: other,
        question: 9,
        name: "b".to_owned(),
    });
    let beside = vec!["a".to_owned()];
    let answer = NameAnswer::Refused(NameRefusal::Unknown { beside });
    let (to, question) = (other, 9);
    assert_eq!(sought, [NameAction::Answer { to, question, answer }]);
    assert_eq!(table.step(NameEvent::Dead(owner)).len(), 1);
    let found = table.step(NameEvent::Find {
        from: other,
        question: 8,
        name: "a".to_owned(),
    });
    let is_told = matches!(&found[..], [NameAction::Answer { answer: NameAnswer::Refused(NameRefusal::OwnerDead(dead)), .. }] if *dead == owner);
    assert!(is_told, "{found:?}");
}
