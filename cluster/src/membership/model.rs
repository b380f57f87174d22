//! A model of the head and two members, explored state by state with stateright.
//!
//! Time stands still and no silence is allowed, so the head may bury a living member at any time. Work of a member may arrive at
//! any time, also after its burial, any number of times. Notices to each member arrive in order, and again after a link was
//! made anew.

use std::collections::BTreeSet;
use std::time::Duration;

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::mutant::MemberMutant;
use super::*;
use crate::peer::{Peer, ProcessId};

const NOW: Duration = Duration::ZERO;

#[derive(Clone, Copy)]
struct Cluster {
    joins: u8,
    restarts: u8,
    removals: u8,
    mutant: MemberMutant,
}

/// A process that was started, as it sees itself and others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Process {
    me: Peer,
    view: View,
    /// The notices that the head has sent to it and that may come again.
    told: Vec<Notice>,
    /// The number of those that have arrived.
    heard: usize,
    is_crashed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    head: Members,
    processes: Vec<Process>,
    joins: u8,
    restarts: u8,
    removals: u8,
    /// The names that were given, and whether one was given twice.
    names: BTreeSet<Peer>,
    is_named_twice: bool,
    numbers: BTreeSet<ProcessId>,
    is_number_used_again: bool,
    /// All burials, as the head has told them.
    burials: Vec<Peer>,
    /// A process has acted on work of an incarnation that it knows to be buried, or the head has.
    is_work_of_dead_done: bool,
    /// A burial was told a member twice.
    is_told_twice: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum MemberAction {
    Join,
    Restart(ProcessId),
    Remove(ProcessId),
    Tick,
    Crash(usize),
    /// The host's system tells of a crash.
    Ended(usize),
    /// A process dials the head again, under its name.
    Redial(usize),
    /// The next notice arrives at a process.
    Hear(usize),
    /// A notice arrives once more.
    HearAgain(usize, usize),
    /// Work of one process arrives at another, or at the head.
    Work(usize, Option<usize>),
}

impl World {
    fn tell(&mut self, events: impl IntoIterator<Item = MemberEvent>) {
        for event in events {
            let MemberEvent::Changed(notice) = event else {
                continue;
            };
            if notice.change != Change::Joined {
                self.burials.push(notice.peer);
            }
            for process in &mut self.processes {
                process.told.push(notice);
            }
        }
    }

    fn enter(&mut self, peer: Peer, event: MemberEvent, mutant: MemberMutant) {
        self.is_named_twice |= !self.names.insert(peer);
        let members: Vec<Peer> = self.head.members().collect();
        let mut view = View::new(self.head.epoch(), &members);
        view.mutant = mutant;
        self.tell([event]);
        self.processes.push(Process {
            me: peer,
            view,
            told: Vec::new(),
            heard: 0,
            is_crashed: false,
        });
    }

    fn hear(&mut self, process: usize, index: usize) {
        let process = &mut self.processes[process];
        let notice = process.told[index];
        let was_buried = process.view.standing(notice.peer) == Standing::Buried;
        let is_new = process.view.apply(&notice);
        self.is_told_twice |= is_new == Ok(true) && was_buried && notice.change != Change::Joined;
        process.heard = process.heard.max(index + 1);
    }

    fn act(&mut self, action: MemberAction, cluster: &Cluster) {
        match action {
            MemberAction::Join => {
                self.joins += 1;
                if let Ok((peer, event)) = self.head.admit(NOW, None) {
                    self.is_number_used_again |= !self.numbers.insert(peer.process);
                    self.enter(peer, event, cluster.mutant);
                }
            }
            MemberAction::Restart(process) => {
                self.restarts += 1;
                if let Ok((peer, event)) = self.head.restart(NOW, process, None) {
                    self.enter(peer, event, cluster.mutant);
                }
            }
            MemberAction::Remove(process) => {
                self.removals += 1;
                let events = self.head.remove(process);
                self.tell(events);
            }
            MemberAction::Tick => {
                let events = self.head.tick(NOW);
                self.tell(events);
            }
            MemberAction::Crash(process) => self.processes[process].is_crashed = true,
            MemberAction::Ended(process) => {
                let events = self.head.died(self.processes[process].me, WhyDead::Ended);
                self.tell(events);
            }
            MemberAction::Redial(process) => {
                if let Ok(event) = self.head.readmit(NOW, self.processes[process].me) {
                    self.tell(event);
                }
            }
            MemberAction::Hear(process) => self.hear(process, self.processes[process].heard),
            MemberAction::HearAgain(process, index) => self.hear(process, index),
            MemberAction::Work(from, Some(at)) => {
                let from = self.processes[from].me;
                let process = &self.processes[at];
                let told = process.told[..process.heard].iter();
                let is_known_dead = told
                    .clone()
                    .any(|it| it.peer == from && it.change != Change::Joined);
                self.is_work_of_dead_done |= process.view.standing(from) == Standing::Member && is_known_dead;
            }
            MemberAction::Work(from, None) => {
                let from = self.processes[from].me;
                let is_heard = self.head.heard(NOW, from).is_ok();
                self.is_work_of_dead_done |= is_heard && self.burials.contains(&from);
            }
        }
    }

    /// MEMBER-2: the members that were not declared dead are members, and nobody else is.
    fn is_exact(&self) -> bool {
        let living = |peer: &Peer| !self.burials.contains(peer);
        let mut expected: Vec<Peer> = self.names.iter().copied().filter(living).collect();
        expected.retain(|peer| peer.process != ProcessId::HEAD);
        let found = self.head.members().filter(|peer| peer.process != ProcessId::HEAD);
        found.eq(expected)
    }

    /// MEMBER-4: who has heard everything knows what the head knows.
    fn agrees(&self) -> bool {
        self.processes.iter().all(|process| {
            let has_heard = process.heard == process.told.len();
            !has_heard || process.view.members().eq(self.head.members())
        })
    }
}

impl Model for Cluster {
    type State = World;
    type Action = MemberAction;

    fn init_states(&self) -> Vec<World> {
        let mut head = Members::new(MemberSettings {
            silence_timeout: Duration::ZERO,
            ..MemberSettings::default()
        });
        head.mutant = self.mutant;
        vec![World {
            head,
            processes: Vec::new(),
            joins: 0,
            restarts: 0,
            removals: 0,
            names: BTreeSet::new(),
            is_named_twice: false,
            numbers: BTreeSet::new(),
            is_number_used_again: false,
            burials: Vec::new(),
            is_work_of_dead_done: false,
            is_told_twice: false,
        }]
    }

    fn actions(&self, state: &World, actions: &mut Vec<MemberAction>) {
        if state.joins < self.joins {
            actions.push(MemberAction::Join);
        }
        let numbers = || state.numbers.iter().copied();
        if state.restarts < self.restarts {
            actions.extend(numbers().map(MemberAction::Restart));
        }
        if state.removals < self.removals {
            actions.extend(numbers().map(MemberAction::Remove));
        }
        actions.push(MemberAction::Tick);
        for (at, process) in state.processes.iter().enumerate() {
            match process.is_crashed {
                true => actions.push(MemberAction::Ended(at)),
                false => {
                    actions.extend([MemberAction::Crash(at), MemberAction::Redial(at)]);
                    if process.heard < process.told.len() {
                        actions.push(MemberAction::Hear(at));
                    }
                    actions.extend((0..process.heard).map(|index| MemberAction::HearAgain(at, index)));
                    let froms = (0..state.processes.len()).filter(|from| *from != at);
                    actions.extend(froms.map(|from| MemberAction::Work(from, Some(at))));
                }
            }
            actions.push(MemberAction::Work(at, None));
        }
    }

    fn next_state(&self, state: &World, action: MemberAction) -> Option<World> {
        let mut next = state.clone();
        next.act(action, self);
        Some(next).filter(|next| next != state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one name for one life", |_, state: &World| !state.is_named_twice),
            Property::always("a number is not used again", |_, state: &World| {
                !state.is_number_used_again
            }),
            Property::always("members are exact", |_, state: &World| state.is_exact()),
            Property::always("the dead are not heard", |_, state: &World| {
                !state.is_work_of_dead_done
            }),
            Property::always("views agree", |_, state: &World| state.agrees()),
            Property::always("a burial is told once", |_, state: &World| !state.is_told_twice),
        ]
    }
}

/// Explores all states. Returns the names of the properties that do not hold.
fn faults(cluster: Cluster) -> Vec<&'static str> {
    let checker = cluster
        .checker()
        .threads(1)
        .finish_when(HasDiscoveries::AnyFailures);
    let checker = checker.spawn_bfs().join();
    let mut faults: Vec<_> = checker.discoveries().into_keys().collect();
    faults.sort_unstable();
    let (mutant, states) = (cluster.mutant, checker.unique_state_count());
    println!("M2, members: {mutant:?}: {states} states, {faults:?}");
    faults
}

const CLUSTER: Cluster = Cluster {
    joins: 2,
    restarts: 1,
    removals: 1,
    mutant: MemberMutant::None,
};

#[test]
fn member_1_to_5_hold_whoever_crashes_is_buried_wrongly_or_is_removed() {
    assert_eq!(faults(CLUSTER), [""; 0]);
}

#[test]
fn mutants_of_the_membership_are_found() {
    for (mutant, fault) in [
        (MemberMutant::Resurrects, "the dead are not heard"),
        (MemberMutant::ReusesNumbers, "a number is not used again"),
        (MemberMutant::AppliesAgain, "views agree"),
    ] {
        let found = faults(Cluster { mutant, ..CLUSTER });
        assert!(found.contains(&fault), "{mutant:?}: {found:?}");
    }
}
