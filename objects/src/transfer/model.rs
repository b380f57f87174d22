//! Random histories of an owner and the agents of several hosts, beside a model that knows every byte. Messages overtake each other,
//! processes die and come back, copies become unreadable, and one process may lie.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::Index;
use selvedge_cluster::peer::{Incarnation, Peer, ProcessId};

use super::mutant::TransferMutant;
use super::*;
use crate::mutants::{assert_breaks, fault_of_a_history};
use crate::store::StoreError;

const SETTINGS: TransferSettings = TransferSettings {
    chunk_bytes: 4,
    credits: 2,
};

/// The owner, and the agents of other hosts.
const AGENTS: [u32; 4] = [1, 2, 3, 4];

/// A process on the host of agent 2 that fills memory there.
const AUTHOR: u32 = 5;

#[derive(Clone, Debug)]
enum TransferStep {
    /// The owner makes an object, or the author does, in the store of agent 2.
    Make {
        by_author: bool,
        bytes: u64,
    },
    Want {
        agent: Index,
        name: Index,
    },
    Deliver(Index),
    /// Memory is there for a pull, or not.
    Lend {
        which: Index,
        is_there: bool,
    },
    /// The owner has computed the checksum of an object of its own, or could not read it for the moment.
    Measured {
        which: Index,
        is_read: bool,
    },
    Free(Index),
    Kill(Index),
    /// The copy of an agent cannot be read any more.
    Spoil {
        agent: Index,
        name: Index,
    },
}

fn steps() -> impl Strategy<Value = Vec<TransferStep>> {
    let index = any::<Index>;
    let step = prop_oneof![
        2 => (any::<bool>(), 1_u64..30).prop_map(|(by_author, bytes)| TransferStep::Make { by_author, bytes }),
        5 => (index(), index()).prop_map(|(agent, name)| TransferStep::Want { agent, name }),
        30 => index().prop_map(TransferStep::Deliver),
        6 => (index(), prop::bool::weighted(0.9)).prop_map(|(which, is_there)| TransferStep::Lend { which, is_there }),
        3 => (index(), any::<bool>()).prop_map(|(which, is_read)| TransferStep::Measured { which, is_read }),
        1 => index().prop_map(TransferStep::Free),
        1 => index().prop_map(TransferStep::Kill),
        1 => (index(), index()).prop_map(|(agent, name)| TransferStep::Spoil { agent, name }),
    ];
    prop::collection::vec(step, 0..300)
}

#[derive(Clone, Debug)]
enum Sent {
    Message(TransferMessage, Vec<u8>),
    /// The author tells the owner of an object that it has filled.
    Put(CopyName, CopyFacts, CopyAt),
    Death(Peer),
}

/// The bytes of a pull, and the number of bytes that were written.
type Filling = (Vec<Option<u8>>, u64);

struct Question {
    agent: Peer,
    name: CopyName,
    /// The copies that could have answered it ever since.
    good: BTreeSet<CopyAt>,
}

struct TransferWorld {
    mutant: TransferMutant,
    liar: Option<u32>,
    lives: BTreeMap<u32, u32>,
    list: CopyList,
    pulls: BTreeMap<u32, Pulls>,
    flying: Vec<(Peer, Peer, Sent)>,
    /// The memory of pulls.
    memory: BTreeMap<(Peer, CopyName, u64), Filling>,
    reserved: Vec<(Peer, CopyName, u64, u64)>,
    /// The objects whose checksums the owner computes.
    measuring: Vec<CopyName>,
    sealed: BTreeSet<(Peer, CopyName)>,
    lengths: BTreeMap<CopyName, u64>,
    held: BTreeSet<CopyName>,
    questions: BTreeMap<u64, Question>,
    numbers: u64,
    is_owner_dead: bool,
}

/// The bytes of an object.
fn content(name: CopyName, bytes: u64) -> Vec<u8> {
    let byte =
        |at: u64| (name.number * 31 + at * 7 + u64::from(name.maker.process.number())).to_le_bytes()[0];
    (0..bytes).map(byte).collect()
}

impl TransferWorld {
    fn new(mutant: TransferMutant, liar: Option<u32>) -> Self {
        let mut world = TransferWorld {
            mutant,
            liar,
            lives: AGENTS.into_iter().chain([AUTHOR]).map(|it| (it, 1)).collect(),
            list: CopyList::new(peer(1, 1)).with_mutant(mutant),
            pulls: BTreeMap::new(),
            flying: Vec::new(),
            memory: BTreeMap::new(),
            reserved: Vec::new(),
            measuring: Vec::new(),
            sealed: BTreeSet::new(),
            lengths: BTreeMap::new(),
            held: BTreeSet::new(),
            questions: BTreeMap::new(),
            numbers: 0,
            is_owner_dead: false,
        };
        AGENTS.into_iter().for_each(|number| world.start(number));
        world
    }

    fn start(&mut self, number: u32) {
        let pulls = Pulls::new(self.living(number), SETTINGS).with_mutant(self.mutant);
        self.pulls.insert(number, pulls);
    }

    fn living(&self, number: u32) -> Peer {
        peer(number, self.lives[&number])
    }

    fn is_alive(&self, whom: Peer) -> bool {
        let number = whom.process.number();
        self.living(number) == whom && !(number == 1 && self.is_owner_dead)
    }

    fn owner(&self) -> Peer {
        peer(1, 1)
    }

    fn step(&mut self, step: TransferStep) {
        match step {
            TransferStep::Make { by_author, bytes } if !self.is_owner_dead => self.make(by_author, bytes),
            TransferStep::Make { .. } => {}
            TransferStep::Want { agent, name } => {
                let names: Vec<_> = self.lengths.keys().copied().collect();
                if !names.is_empty() {
                    self.want(*agent.get(&AGENTS), *name.get(&names));
                }
            }
            TransferStep::Deliver(which) => {
                if !self.flying.is_empty() {
                    let which = which.index(self.flying.len());
                    let (from, to, sent) = self.flying.swap_remove(which);
                    self.deliver(from, to, sent);
                }
            }
            TransferStep::Lend { which, is_there } => {
                if !self.reserved.is_empty() {
                    let which = which.index(self.reserved.len());
                    self.lend(which, is_there);
                }
            }
            TransferStep::Measured { which, is_read } => {
                if !self.measuring.is_empty() {
                    let which = which.index(self.measuring.len());
                    self.measured(which, is_read);
                }
            }
            TransferStep::Free(name) => {
                let held: Vec<_> = self.held.iter().copied().collect();
                if !held.is_empty() && !self.is_owner_dead {
                    self.free(*name.get(&held));
                }
            }
            TransferStep::Kill(which) => self.kill(*which.get(&[2, 3, 4, AUTHOR, 2, 3, 4, AUTHOR, 1])),
            TransferStep::Spoil { agent, name } => {
                let names: Vec<_> = self.lengths.keys().copied().collect();
                let agent = *agent.get(&AGENTS[1..]);
                if !names.is_empty() {
                    self.spoil(agent, *name.get(&names));
                }
            }
        }
    }

    fn make(&mut self, by_author: bool, bytes: u64) {
        self.numbers += 1;
        let (maker, agent) = match by_author {
            true => (self.living(AUTHOR), self.living(2)),
            false => (self.owner(), self.owner()),
        };
        let (number, owner) = (self.numbers, self.owner());
        let name = CopyName { maker, number };
        self.lengths.insert(name, bytes);
        self.sealed.insert((agent, name));
        let at = self
            .pulls
            .get_mut(&agent.process.number())
            .unwrap()
            .filled(name, owner)
            .unwrap();
        if !by_author {
            self.held.insert(name);
            let actions = self.list.list(name, bytes, None, Some(at));
            return self.perform(owner, actions);
        }
        let checksum = crc32fast::hash(&content(name, bytes));
        let facts = CopyFacts { bytes, checksum };
        self.flying.push((maker, owner, Sent::Put(name, facts, at)));
    }

    fn want(&mut self, agent: u32, name: CopyName) {
        let (owner, agent) = (self.owner(), self.living(agent));
        if !self.is_alive(agent) {
            return;
        }
        self.numbers += 1;
        // Who joins a pull shares its end: that pull may have asked before a copy was there.
        let coming = |it: &CopyReport| it.name == name && !it.is_here;
        let joins = self.pulls[&agent.process.number()].report().iter().any(coming);
        let copies = self.list.copies(name).into_iter().filter(|_| !joins);
        let good = copies
            .filter(|copy| self.sealed.contains(&(copy.agent, name)))
            .collect();
        self.questions
            .insert(self.numbers, Question { agent, name, good });
        let actions = self
            .pulls
            .get_mut(&agent.process.number())
            .unwrap()
            .want(self.numbers, name, owner);
        self.perform(agent, actions);
    }

    fn free(&mut self, name: CopyName) {
        self.held.remove(&name);
        let actions = self.list.free(name);
        let owner = self.owner();
        self.perform(owner, actions);
    }

    /// What could have answered a question is over.
    fn spoils(&mut self, is_over: impl Fn(CopyName, &CopyAt) -> bool) {
        for question in self.questions.values_mut() {
            let name = question.name;
            question.good.retain(|copy| !is_over(name, copy));
        }
    }

    fn spoil(&mut self, agent: u32, name: CopyName) {
        let me = self.living(agent);
        self.spoils(|it, copy| it == name && copy.agent == me);
        let actions = self.pulls.get_mut(&agent).unwrap().unreadable(name);
        self.perform(me, actions);
    }

    fn kill(&mut self, number: u32) {
        let dead = self.living(number);
        if !self.is_alive(dead) {
            return;
        }
        match number {
            1 => self.is_owner_dead = true,
            _ => *self.lives.get_mut(&number).unwrap() += 1,
        }
        self.spoils(|_, copy| copy.agent == dead);
        self.questions.retain(|_, question| question.agent != dead);
        self.reserved.retain(|(agent, ..)| *agent != dead);
        self.memory.retain(|(agent, ..), _| *agent != dead);
        self.sealed.retain(|(agent, _)| *agent != dead);
        // What the dead has put may arrive before the owner learns of the death, and after an agent that knows of it has asked.
        self.flying.retain(|(_, to, _)| *to != dead);
        if AGENTS.contains(&number) {
            self.start(number);
        }
        for other in AGENTS.into_iter().filter(|it| *it != number) {
            let other = self.living(other);
            self.flying.push((dead, other, Sent::Death(dead)));
        }
        if number == 1 {
            self.held.clear();
            self.measuring.clear();
            self.list = CopyList::new(self.owner());
        }
    }

    fn deliver(&mut self, from: Peer, to: Peer, sent: Sent) {
        if !self.is_alive(to) {
            return;
        }
        let number = to.process.number();
        match sent {
            Sent::Death(dead) => {
                let actions = self.pulls.get_mut(&number).unwrap().bury(dead);
                self.perform(to, actions);
                if number == 1 {
                    // Nothing of the dead follows its death.
                    let is_put = |sent: &Sent| matches!(sent, Sent::Put(..));
                    self.flying
                        .retain(|(from, _, sent)| *from != dead || !is_put(sent));
                    let actions = self.list.bury(dead);
                    self.perform(to, actions);
                }
            }
            Sent::Put(name, facts, at) => {
                self.held.insert(name);
                let actions = self.list.list(name, facts.bytes, Some(facts.checksum), Some(at));
                self.perform(to, actions);
            }
            Sent::Message(
                TransferMessage::Get {
                    name,
                    attempt,
                    offset,
                    bytes,
                },
                _,
            ) => {
                self.give(to, from, name, attempt, (offset, bytes));
            }
            Sent::Message(
                TransferMessage::Chunk {
                    name,
                    attempt,
                    offset,
                },
                body,
            ) => {
                let stretch = (offset, body.len() as u64);
                let pulls = self.pulls.get_mut(&number).unwrap();
                let Some(pull) = pulls.chunk(from, name, attempt, stretch) else {
                    return;
                };
                self.write((to, name, pull), offset, &body);
                let checksum = crc32fast::hash(&body);
                let actions = self
                    .pulls
                    .get_mut(&number)
                    .unwrap()
                    .written(name, pull, stretch, checksum);
                self.perform(to, actions);
            }
            Sent::Message(message, _) => {
                let actions = self.pulls.get_mut(&number).unwrap().heard(from, &message);
                self.perform(to, actions);
                if number == 1 {
                    let actions = self.list.heard(from, &message);
                    self.perform(to, actions);
                }
            }
        }
    }

    fn give(&mut self, source: Peer, to: Peer, name: CopyName, attempt: u64, (offset, bytes): (u64, u64)) {
        let number = source.process.number();
        if !self.pulls[&number].has(name) {
            return self.send(source, to, TransferMessage::Unread { name, attempt }, Vec::new());
        }
        let (from, until) = (offset as usize, (offset + bytes) as usize);
        let mut body = content(name, self.lengths[&name])[from..until].to_vec();
        if self.liar == Some(number) {
            body[0] = !body[0];
        }
        self.send(
            source,
            to,
            TransferMessage::Chunk {
                name,
                attempt,
                offset,
            },
            body,
        );
    }

    fn send(&mut self, from: Peer, to: Peer, message: TransferMessage, body: Vec<u8>) {
        match self.is_alive(to) {
            true => self.flying.push((from, to, Sent::Message(message, body))),
            // A message that cannot be sent tells of the death.
            false => self.flying.push((to, from, Sent::Death(to))),
        }
        // COPY-4: a pull has asked for no more than its credits.
        let credits = |it: &(Peer, Peer, Sent)| match it.2 {
            Sent::Message(TransferMessage::Get { name, attempt, .. }, _) => Some((it.0, it.1, name, attempt)),
            Sent::Message(TransferMessage::Chunk { name, attempt, .. }, _) => {
                Some((it.1, it.0, name, attempt))
            }
            _ => None,
        };
        let mut open = BTreeMap::<_, usize>::new();
        self.flying
            .iter()
            .filter_map(credits)
            .for_each(|pull| *open.entry(pull).or_default() += 1);
        assert!(open.values().all(|open| *open <= SETTINGS.credits), "COPY-4");
    }

    fn write(&mut self, place: (Peer, CopyName, u64), offset: u64, body: &[u8]) {
        let (memory, written) = self
            .memory
            .get_mut(&place)
            .expect("COPY-3: memory is written that is lent");
        let (from, until) = (offset as usize, offset as usize + body.len());
        memory[from..until]
            .iter_mut()
            .zip(body)
            .for_each(|(to, from)| *to = Some(*from));
        *written += body.len() as u64;
        // COPY-5: what has come stays, whoever dies.
        assert!(self.liar.is_some() || *written <= memory.len() as u64, "COPY-5");
    }

    fn lend(&mut self, which: usize, is_there: bool) {
        let (agent, name, pull, bytes) = self.reserved.swap_remove(which);
        let pulls = self.pulls.get_mut(&agent.process.number()).unwrap();
        let actions = match is_there {
            true => pulls.lent(name, pull),
            false => Some(pulls.unlent(name, pull, StoreError::Gone)),
        };
        if let Some(actions) = actions {
            if is_there {
                self.memory
                    .insert((agent, name, pull), (vec![None; bytes as usize], 0));
            }
            self.perform(agent, actions);
        }
    }

    fn measured(&mut self, which: usize, is_read: bool) {
        let name = self.measuring.swap_remove(which);
        let why = || StoreError::Memory { why: String::new() };
        let checksum = crc32fast::hash(&content(name, self.lengths[&name]));
        let actions = self
            .list
            .measured(name, is_read.then_some(checksum).ok_or_else(why));
        self.perform(self.owner(), actions);
    }

    fn perform(&mut self, me: Peer, actions: Vec<TransferAction>) {
        for action in actions {
            match action {
                TransferAction::Send { to, message } => self.send(me, to, message, Vec::new()),
                TransferAction::Cut { .. } => {}
                TransferAction::Measure { name } => self.measuring.push(name),
                TransferAction::Lost { name } => {
                    assert!(self.list.copies(name).is_empty(), "COPY-6: a copy is left");
                }
                TransferAction::Reserve { name, pull, bytes } => {
                    let is_other = |(agent, it, other): &(Peer, CopyName, u64)| {
                        *agent == me && *it == name && *other != pull
                    };
                    assert!(
                        !self.memory.keys().any(is_other),
                        "COPY-3: two pulls of an object"
                    );
                    self.reserved.push((me, name, pull, bytes));
                }
                TransferAction::Seal { name, pull } => {
                    let (memory, _) = self.memory.remove(&(me, name, pull)).expect("COPY-3");
                    let bytes: Option<Vec<u8>> = memory.into_iter().collect();
                    assert_eq!(bytes, Some(content(name, self.lengths[&name])), "COPY-2");
                    self.sealed.insert((me, name));
                }
                TransferAction::Abort { name, pull } => {
                    self.memory.remove(&(me, name, pull));
                }
                TransferAction::Drop { name } => {
                    assert!(self.sealed.remove(&(me, name)), "COPY-7: dropped once");
                }
                TransferAction::Grant { request, name } => {
                    assert!(self.sealed.contains(&(me, name)), "COPY-2");
                    assert!(self.questions.remove(&request).is_some(), "COPY-1");
                }
                TransferAction::Refuse { request, error } => {
                    let question = self.questions.remove(&request).expect("COPY-1");
                    let is_held = self.held.contains(&question.name);
                    let is_good = is_held && !question.good.is_empty() && self.liar.is_none();
                    assert!(error != StoreError::Lost || !is_good, "COPY-5: a source was left");
                }
            }
        }
    }

    /// Delivers everything that is on its way.
    fn deliver_all(&mut self) {
        while let Some((from, to, sent)) = self.flying.pop() {
            self.deliver(from, to, sent);
        }
    }

    /// Delivers everything that is on its way, lends all memory that is asked for, and computes all checksums.
    fn settle(&mut self) {
        loop {
            self.deliver_all();
            match (self.reserved.is_empty(), self.measuring.is_empty()) {
                (false, _) => self.lend(0, true),
                (true, false) => self.measured(0, true),
                (true, true) => return,
            }
        }
    }

    fn end(mut self) {
        self.settle();
        assert!(self.questions.is_empty(), "COPY-1: everybody is answered");
        assert!(self.memory.is_empty(), "COPY-7: nothing is left half-filled");
        for name in self.held.clone() {
            let listed: BTreeSet<Peer> = self.list.copies(name).iter().map(|copy| copy.agent).collect();
            let sealed = self
                .sealed
                .iter()
                .filter(|(_, it)| *it == name)
                .map(|(agent, _)| *agent);
            assert_eq!(listed, sealed.collect(), "COPY-6: {name:?}");
        }
        self.kill(AUTHOR);
        self.held.clone().into_iter().for_each(|name| self.free(name));
        self.settle();
        assert!(
            self.sealed.is_empty() && self.list.is_empty(),
            "COPY-7: {:?}",
            self.sealed
        );
        assert!(
            self.pulls.values().all(|pulls| pulls.report().is_empty()),
            "COPY-7"
        );
    }
}

fn peer(number: u32, life: u32) -> Peer {
    Peer {
        process: ProcessId::new(number).unwrap(),
        incarnation: Incarnation(life),
    }
}

fn run(mutant: TransferMutant, liar: Option<u32>, steps: Vec<TransferStep>) {
    let mut world = TransferWorld::new(mutant, liar);
    steps.into_iter().for_each(|step| world.step(step));
    world.end();
}

fn liars() -> impl Strategy<Value = Option<u32>> {
    prop::option::weighted(0.3, 2_u32..5)
}

proptest! {
    #[test]
    fn rstore_11_12_13_copies_are_right_and_pulled_once_and_everybody_is_answered(liar in liars(), steps in steps()) {
        run(TransferMutant::None, liar, steps);
    }
}

#[test]
fn every_mutant_of_transfers_is_found() {
    use TransferMutant::*;
    for (mutant, invariant) in [
        (PullsTwice, "COPY-1"),
        (StartsAnew, "COPY-5"),
        (HasOneSource, "COPY-5"),
        (TakesAnyChunk, "COPY-5"),
        (SealsUnchecked, "COPY-2"),
        (KnowsNoCredits, "COPY-4"),
        (PullsOn, "COPY-7"),
        (TellsNobody, "COPY-1"),
        (HeedsStaleNotices, "COPY-6"),
        (HeedsTheBuried, "COPY-6"),
        (KeepsOrphans, "COPY-7"),
        (LosesWhatIsOutOfReach, "COPY-5"),
    ] {
        let fault = fault_of_a_history(&(liars(), steps()), |(liar, steps)| run(mutant, liar, steps));
        assert_breaks(mutant, invariant, fault);
    }
}

/// Returns whether a pull ends well whose only source dies after another host has got a copy.
fn outlives_its_source(mutant: TransferMutant) -> bool {
    let mut world = TransferWorld::new(mutant, None);
    world.make(true, 10);
    world.settle();
    let name = *world.lengths.keys().next().unwrap();
    // Agent 3 is told of the copy of agent 2 and has no memory yet; agent 4 gets the whole object.
    world.want(3, name);
    world.deliver_all();
    world.want(4, name);
    world.deliver_all();
    world.lend(1, true);
    world.deliver_all();
    world.kill(2);
    world.deliver_all();
    world.lend(0, true);
    world.settle();
    let is_here = world.sealed.contains(&(world.living(3), name));
    world.end();
    is_here
}

#[test]
fn copy_05_a_pull_asks_the_owner_again_when_the_sources_that_it_named_are_dead() {
    assert!(outlives_its_source(TransferMutant::None));
    assert!(!outlives_its_source(TransferMutant::SeeksOnce));
}

/// The word of the maker arrives while the host, which has lost the copy, seeks the object anew.
#[test]
fn copy_06_a_copy_that_was_lost_before_it_was_known_is_not_listed_while_its_host_seeks_another_one() {
    let mut world = TransferWorld::new(TransferMutant::None, None);
    world.make(true, 10);
    let name = *world.lengths.keys().next().unwrap();
    let put = world.flying.pop().unwrap();
    world.spoil(2, name);
    world.deliver_all();
    world.want(2, name);
    let (from, to, seek) = world.flying.pop().unwrap();
    world.deliver(from, to, seek);
    // The answer, that nothing is known, comes after the claim.
    let unfound = world.flying.pop().unwrap();
    let (from, to, put) = put;
    world.deliver(from, to, put);
    world.deliver_all();
    world.flying.push(unfound);
    world.end();
}
