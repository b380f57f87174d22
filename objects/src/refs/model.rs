//! Models of the reference count, explored state by state with stateright (M1, M1b, M1c, M1d, M2).
//!
//! Every process is the product's table. The network of bundles is a set: a bundle that was sent once can arrive at any
//! time, any number of times, or never, so every loss, repetition and reordering is explored without a budget. Calls
//! arrive at most once, those between two processes in order, as a session delivers them. Time stands still, and all
//! pauses are zero: every question may be repeated at any time.
//!
//! Process 0 is the owner. Users pass and drop their references at any time. The properties:
//! - `no early free` (REF-1): when the object is freed, no user is confirmed, and none waits for the owner unless a
//!   process has died;
//! - `settled calls` (REF-4): a call runs when its references are confirmed, and the objects that live here exist;
//! - `what is given is there`: a reference that has come from its owner, or from a user that was listed, is not lost while these live and
//!   the object is there;
//! - `what is held again is made again`: an object that was freed takes another value, also if it has got an error since;
//! - `counted load` (REF-9): the entries of each peer are counted rightly;
//! - `frees once` (REF-2);
//! - `what is awaited comes` (REF-5): an object without a value has a call that makes it;
//! - `nothing left at rest` (REF-3): when all handles are dropped and nobody repeats a question, no living process has an
//!   entry or a waiting call;
//! - `all is answered` (REF-5): when all calls have arrived and nothing is left to hear, no question is open. Where there is room for all;
//! - `comes to rest` (REF-5): every path ends so, if it ends. It says nothing about circles, of which stateright looks at none: with `batches` a tick
//!   and a flush are one, and no path ends.

mod scenarios;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use selvedge_cluster::peer::{Incarnation, Peer, ProcessId};
use stateright::{Checker, HasDiscoveries, Model, Property};

use super::mutant::Mutant;
use super::{Action, Bundle, Cell, Event, Parcel, RefId, RefSettings, RefStats, Refs, Stage};

const NOW: Duration = Duration::ZERO;
/// The question of a fetch.
const FETCH: u64 = 99;
/// The number of the kept call.
const KEPT: u64 = 0;

fn peer(index: usize) -> Peer {
    Peer {
        process: ProcessId::new(index as u32 + 1).unwrap(),
        incarnation: Incarnation(1),
    }
}

fn index(peer: Peer) -> usize {
    peer.process.number() as usize - 1
}

/// The source of the one object.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Origin {
    /// Process 1 has process 0 keep the result of a call.
    Kept,
    /// Process 0 created it.
    Created,
}

#[derive(Clone, Debug)]
struct Scenario {
    processes: usize,
    origin: Origin,
    /// Who passes the reference to whom, each once, at any time while it has a handle.
    passes: Vec<(usize, usize)>,
    /// Whether messages wait for others before they are sent.
    batches: bool,
    /// Whether a call may turn out never to have been sent.
    loses_calls: bool,
    /// Whether receivers may throw parcels away undecoded.
    discards: bool,
    /// A process that may crash at any time, or be declared dead although it lives.
    mortal: Option<(usize, Death)>,
    /// A process that asks for the value once, at any time.
    fetches: Option<usize>,
    /// A process that shuts down at any time.
    ends: Option<usize>,
    /// Whether the call for the kept object has a reference to another object with it, of the last process.
    brings: bool,
    /// Whether the owner may hold the object again once it was freed.
    revives: bool,
    /// Whether the confirmation of a kept call may be late.
    is_impatient: bool,
    /// A process that has room for one entry, and refuses all calls with references.
    narrow: Option<usize>,
    mutant: Mutant,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Death {
    Crash,
    Mistake,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Cluster {
    tables: Vec<Refs>,
    id: Option<RefId>,
    /// The object to which the kept call brings a reference.
    brought: Option<RefId>,
    /// Whether the owner has a handle on that.
    holds_brought: bool,
    /// Handles of users.
    handles: Vec<u64>,
    bundles: BTreeSet<(usize, usize, Bundle)>,
    /// Calls on their way, by their number: sender, receiver, parcels. The kept call has number 0.
    calls: BTreeMap<u64, (usize, usize, Vec<Parcel>)>,
    passed: BTreeSet<usize>,
    /// The function of the kept call runs, or the call was refused: what comes of that is put into the cell.
    is_run: bool,
    is_filled: bool,
    is_asked: bool,
    answers: u32,
    frees: u32,
    crashed: Option<usize>,
    /// Who knows of the death.
    informed: BTreeSet<usize>,
    ran_early: bool,
    /// The owner holds the object again.
    is_revived: bool,
    /// The object that the owner held again could not be made again.
    stays_gone: bool,
    /// Calls with a reference whose sender was listed.
    lent: BTreeSet<u64>,
    /// A reference from a living owner, or from a living user that was listed, was lost when its call ran.
    ran_lost: bool,
    /// An object was missing or lost although nobody has died.
    failed: bool,
    is_ending: bool,
    /// The shutdown is over.
    has_ended: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Move {
    Keep,
    Pass(usize),
    Deliver(u64),
    NotSent(u64),
    Drop(usize),
    Discard(usize),
    Hear(usize, usize, Bundle),
    Tick(usize),
    Flush(usize, usize),
    Fill,
    /// The owner drops what the kept call has brought.
    DropBrought,
    Fetch,
    Revive,
    Crash,
    Learn(usize),
    End,
}

impl Cluster {
    fn perform(&mut self, at: usize, actions: Vec<Action>, scenario: &Scenario) {
        for action in actions {
            match action {
                Action::Send { to, bundle } => {
                    self.bundles.insert((at, index(to), bundle));
                }
                Action::Run { call } => {
                    self.begin(call, true);
                    self.ran_early |= self.is_unsettled(at, call);
                    self.ran_lost |= self.lent.contains(&call) && self.is_lost(at, call, scenario);
                }
                Action::RefuseCall { call, .. } => {
                    // What has arrived with the call is no handle.
                    self.handles[at] = self.handles[at].saturating_sub(u64::from(call != KEPT));
                    self.is_run |= call == KEPT;
                }
                // Its handles are dropped by moves of their own.
                Action::Abandon { call } => self.begin(call, false),
                Action::Overloaded { .. } | Action::TimedOut(_) => {}
                Action::Ended { leaks } => {
                    self.has_ended = true;
                    self.failed |= !leaks.is_empty();
                }
                Action::Free(id) => self.frees += u32::from(Some(id) == self.id),
                Action::Failed(_) => {
                    self.frees = 0;
                    self.failed |= !scenario.may_lose();
                }
                Action::Answer { .. } | Action::Refuse { .. } | Action::RefuseFetch { .. } => {
                    self.answers += 1
                }
                Action::Lost(_) => self.failed |= !scenario.may_lose(),
                Action::Confirmed(_) => {}
            }
        }
    }

    /// The kept call runs or is dropped, and what it has brought is held.
    fn begin(&mut self, call: u64, is_run: bool) {
        if call == KEPT {
            self.is_run |= is_run;
            self.holds_brought = self.brought.is_some();
        }
    }

    fn step(&mut self, at: usize, event: Event, scenario: &Scenario) {
        let actions = self.tables[at].step(NOW, event);
        self.perform(at, actions, scenario);
    }

    /// Whether the reference of a call is lost at its receiver although nobody is dead who has to do with it, and the object is there.
    fn is_lost(&self, at: usize, call: u64, scenario: &Scenario) -> bool {
        let (from, _) = scenario.passes[call as usize - 1];
        let id = self.id.unwrap();
        let held = self.tables[at].held.get(&id).map(|held| held.stage);
        let owned = self.tables[0].owned.get(&id).map(|owned| owned.cell);
        let is_lost = held == Some(Stage::Lost) && matches!(owned, Some(Cell::Empty | Cell::Full));
        is_lost && ![0, from, at].into_iter().any(|it| self.is_out(it))
    }

    /// Whether a reference of a call is not settled at its receiver.
    fn is_unsettled(&self, at: usize, call: u64) -> bool {
        let table = &self.tables[at];
        let brought = self.brought.filter(|_| call == KEPT);
        self.id.into_iter().chain(brought).any(|id| {
            let stage = table.held.get(&id).map(|it| it.stage);
            let cell = table.owned.get(&id).map(|it| it.cell);
            matches!(stage, Some(Stage::Pending(_))) || cell == Some(Cell::Unborn)
        })
    }

    /// Whether nothing will ever be put into the object, and nobody is told so.
    fn is_forgotten(&self) -> bool {
        let owned = self.id.and_then(|id| self.tables[0].owned.get(&id));
        let is_empty = owned.is_some_and(|owned| owned.cell == Cell::Empty);
        let is_coming = self.is_run && !self.is_filled || self.tables[0].calls.contains_key(&KEPT);
        is_empty && !is_coming && !self.is_revived
    }

    /// Whether a question is open although all calls have arrived and nothing is left to hear.
    fn is_unanswered(&self, scenario: &Scenario) -> bool {
        let mut living = (0..scenario.processes).filter(|at| !self.is_out(*at));
        let knows = |at: usize| self.crashed.is_none() || self.informed.contains(&at);
        let is_open = living.clone().any(|at| self.tables[at].stats().questions > 0);
        let is_still = living.all(|at| knows(at) && self.tables[at].stats().waiting == 0);
        // Without room questions are repeated until there is some.
        is_open
            && is_still
            && scenario.narrow.is_none()
            && self.calls.is_empty()
            && self.bundles.iter().all(|bundle| self.is_heard(bundle))
    }

    /// Whether a bundle changes nothing any more, and has no answer that was not sent.
    fn is_heard(&self, (from, to, bundle): &(usize, usize, Bundle)) -> bool {
        if self.is_out(*to) {
            return true;
        }
        let (mut table, bundle) = (self.tables[*to].clone(), bundle.clone());
        let mut actions = table.step(
            NOW,
            Event::Heard {
                from: peer(*from),
                bundle,
            },
        );
        actions.extend(table.step(NOW, Event::Flush(peer(*from))));
        let is_sent = |action: &Action| match action {
            Action::Send { to: back, bundle } => self.bundles.contains(&(*to, index(*back), bundle.clone())),
            _ => false,
        };
        table == self.tables[*to] && actions.iter().all(is_sent)
    }

    /// Whether a user that the owner counts needs the object.
    fn is_needed(&self, scenario: &Scenario) -> bool {
        (1..scenario.processes).any(|user| {
            let is_buried = self.tables[0].is_buried(peer(user)) || self.crashed == Some(user);
            let stage = self.tables[user].held.get(&self.id.unwrap()).map(|it| it.stage);
            let is_needed = match stage {
                Some(Stage::Confirmed(_)) => true,
                // A child whose parent has died before the child was listed learns that the object is gone.
                Some(Stage::Pending(_)) => !scenario.may_lose(),
                _ => false,
            };
            is_needed && !is_buried
        })
    }

    fn act(&mut self, action: Move, scenario: &Scenario) {
        match action {
            Move::Keep => {
                let parcel = self.tables[1].keep(NOW, peer(0)).unwrap();
                (self.id, self.handles[1]) = (Some(parcel.id()), 1);
                let brought = scenario.brings.then(|| self.bring(scenario));
                let parcels = [parcel].into_iter().chain(brought).collect();
                self.calls.insert(KEPT, (1, 0, parcels));
            }
            Move::Pass(number) => {
                let (from, to) = scenario.passes[number];
                let held = self.tables[from].held.get(&self.id.unwrap());
                let is_listed = held.is_none_or(|held| matches!(held.stage, Stage::Confirmed(_)));
                if let Ok(parcel) = self.tables[from].pass(self.id.unwrap(), peer(to)) {
                    let call = number as u64 + 1;
                    self.calls.insert(call, (from, to, vec![parcel]));
                    self.lent.extend(is_listed.then_some(call));
                }
                self.passed.insert(number);
            }
            Move::Deliver(call) => {
                let (from, to, parcels) = self.calls.remove(&call).unwrap();
                let is_buried = self.tables[to].is_buried(peer(from));
                self.handles[to] += u64::from(call != KEPT && !is_buried);
                let from = peer(from);
                self.step(to, Event::Arrived { from, call, parcels }, scenario);
            }
            Move::NotSent(call) => {
                let (from, to, parcels) = self.calls.remove(&call).unwrap();
                let to = peer(to);
                for parcel in parcels {
                    self.step(from, Event::NotSent { to, parcel }, scenario);
                }
            }
            Move::Drop(at) | Move::Discard(at) => {
                self.handles[at] -= 1;
                let id = self.id.unwrap();
                let is_discarded = matches!(action, Move::Discard(_));
                let event = if is_discarded {
                    Event::Discarded(id)
                } else {
                    Event::Dropped(id)
                };
                self.step(at, event, scenario);
            }
            Move::Hear(from, to, bundle) => {
                let from = peer(from);
                self.step(to, Event::Heard { from, bundle }, scenario);
            }
            Move::Tick(at) => self.step(at, Event::Tick, scenario),
            Move::Flush(at, to) => self.step(at, Event::Flush(peer(to)), scenario),
            Move::Fill => {
                self.is_filled = true;
                if let Ok(actions) = self.tables[0].fill(self.id.unwrap()) {
                    self.perform(0, actions, scenario);
                }
            }
            Move::DropBrought => {
                self.holds_brought = false;
                self.step(0, Event::Dropped(self.brought.unwrap()), scenario);
            }
            Move::Fetch => {
                self.is_asked = true;
                let from = peer(scenario.fetches.unwrap());
                let (question, id) = (FETCH, self.id.unwrap());
                self.step(0, Event::Fetch { from, question, id }, scenario);
            }
            Move::Revive => {
                self.is_revived = true;
                let id = self.id.unwrap();
                self.stays_gone |= !self.tables[0].hold_again(id);
                let cell = self.tables[0].owned.get(&id).map(|owned| owned.cell);
                self.stays_gone |= cell != Some(Cell::Empty);
                self.frees = 0;
                self.handles[0] += 1;
            }
            Move::Crash => self.crash(scenario),
            Move::End => {
                self.is_ending = true;
                let deadline = Duration::MAX;
                self.step(scenario.ends.unwrap(), Event::End { deadline }, scenario);
            }
            Move::Learn(at) => {
                self.informed.insert(at);
                let dead = peer(scenario.mortal.unwrap().0);
                self.step(at, Event::Dead(dead), scenario);
            }
        }
    }

    /// The last process gives the creator a reference to another object, which the kept call takes along.
    fn bring(&mut self, scenario: &Scenario) -> Parcel {
        let owner = scenario.processes - 1;
        let id = self.tables[owner].create();
        let given = self.tables[owner].pass(id, peer(1)).unwrap();
        let (from, call, parcels) = (peer(owner), KEPT, vec![given]);
        self.tables[1].step(NOW, Event::Arrived { from, call, parcels });
        let lent = self.tables[1].pass(id, peer(0)).unwrap();
        self.tables[1].step(NOW, Event::Dropped(id));
        self.tables[owner].step(NOW, Event::Dropped(id));
        self.brought = Some(id);
        lent
    }

    fn crash(&mut self, scenario: &Scenario) {
        let (dead, death) = scenario.mortal.unwrap();
        self.crashed = Some(dead);
        if death == Death::Crash {
            self.handles[dead] = 0;
            let settings = scenario.settings(dead);
            self.tables[dead] = Refs::new(peer(dead), settings);
            // Calls and bundles on their way may still arrive; those to the dead never do.
            self.calls.retain(|_, (_, to, _)| *to != dead);
        }
    }

    /// Whether a process counts no more: it is dead, or declared dead.
    fn is_out(&self, at: usize) -> bool {
        self.crashed == Some(at)
    }

    /// Whether nobody has anything to do but to hear old bundles again, which need never come.
    fn is_quiet(&self, scenario: &Scenario) -> bool {
        let is_idle = |at: usize| {
            let stats = self.tables[at].stats();
            let is_informed = self.crashed.is_none() || self.informed.contains(&at);
            self.is_out(at) || is_informed && stats.questions == 0 && stats.waiting == 0
        };
        self.handles.iter().all(|handles| *handles == 0)
            && !self.holds_brought
            && self.calls.is_empty()
            && (0..scenario.processes).all(is_idle)
    }

    fn is_clean(&self, scenario: &Scenario) -> bool {
        let passes = (0..scenario.passes.len()).all(|pass| {
            let (from, _) = scenario.passes[pass];
            self.passed.contains(&pass) || self.handles[from] == 0
        });
        let tables = (0..scenario.processes).all(|at| {
            let is_informed = self.crashed.is_none() || self.informed.contains(&at);
            self.is_out(at) || is_informed && self.tables[at].stats() == RefStats::default()
        });
        let answers = self.answers == u32::from(self.is_asked);
        self.id.is_some()
            && self.is_ending == self.has_ended
            && passes
            && self.calls.is_empty()
            && tables
            && (answers || self.crashed == scenario.fetches)
    }
}

impl Scenario {
    fn settings(&self, at: usize) -> RefSettings {
        let pause = if self.batches { Duration::from_secs(1) } else { NOW };
        RefSettings {
            batch_max: if self.batches { 64 } else { 1 },
            batch_after: pause,
            prompt_after: pause,
            retry_first: NOW,
            retry_max: NOW,
            create_timeout: if self.is_impatient { NOW } else { Duration::MAX },
            entries_max: if self.narrow == Some(at) { 1 } else { 1000 },
        }
    }

    /// Whether a reference may be lost, or an object never be created.
    fn may_lose(&self) -> bool {
        let owner_refuses = self.narrow == Some(0) || self.ends == Some(0);
        self.mortal.is_some() || self.loses_calls || owner_refuses
    }

    fn moves_of(&self, state: &Cluster, at: usize, moves: &mut Vec<Move>) {
        if state.handles[at] > 0 {
            moves.push(Move::Drop(at));
            if self.discards {
                moves.push(Move::Discard(at));
            }
        }
        moves.push(Move::Tick(at));
        let others = (0..self.processes).filter(|to| self.batches && *to != at);
        moves.extend(others.map(|to| Move::Flush(at, to)));
        if let Some((dead, _)) = self.mortal
            && state.crashed.is_some()
            && at != dead
            && !state.informed.contains(&at)
        {
            moves.push(Move::Learn(at));
        }
    }

    /// Calls that may arrive next: the first one between each pair.
    fn deliverable(&self, state: &Cluster) -> Vec<u64> {
        let mut seen = BTreeSet::new();
        let calls = state.calls.iter();
        let firsts = calls.filter(|(_, (from, to, _))| seen.insert((*from, *to)));
        firsts.map(|(call, _)| *call).collect()
    }
}

impl Model for Scenario {
    type State = Cluster;
    type Action = Move;

    fn init_states(&self) -> Vec<Cluster> {
        let table = |at| {
            let mut table = Refs::new(peer(at), self.settings(at));
            table.mutant = self.mutant;
            table
        };
        let mut cluster = Cluster {
            tables: (0..self.processes).map(table).collect(),
            id: None,
            brought: None,
            holds_brought: false,
            handles: vec![0; self.processes],
            bundles: BTreeSet::new(),
            calls: BTreeMap::new(),
            passed: BTreeSet::new(),
            is_run: false,
            is_filled: false,
            is_asked: false,
            answers: 0,
            frees: 0,
            crashed: None,
            informed: BTreeSet::new(),
            ran_early: false,
            is_revived: false,
            stays_gone: false,
            lent: BTreeSet::new(),
            ran_lost: false,
            failed: false,
            is_ending: false,
            has_ended: false,
        };
        match self.origin {
            Origin::Kept => cluster.act(Move::Keep, self),
            Origin::Created => {
                cluster.id = Some(cluster.tables[0].create());
                cluster.handles[0] = 1;
                cluster.is_filled = true;
                cluster.tables[0].fill(cluster.id.unwrap()).unwrap();
            }
        }
        vec![cluster]
    }

    fn actions(&self, state: &Cluster, moves: &mut Vec<Move>) {
        let is_dead = |at| state.is_out(at) && self.mortal.is_some_and(|(_, death)| death == Death::Crash);
        for at in (0..self.processes).filter(|at| !is_dead(*at)) {
            self.moves_of(state, at, moves);
        }
        for (number, (from, _)) in self.passes.iter().enumerate() {
            if state.handles[*from] > 0 && !state.passed.contains(&number) {
                moves.push(Move::Pass(number));
            }
        }
        moves.extend(self.deliverable(state).into_iter().map(Move::Deliver));
        if self.loses_calls || state.crashed.is_some() {
            moves.extend(state.calls.keys().copied().map(Move::NotSent));
        }
        if self.mutant == Mutant::ListsCreatorLate || self.fetches.is_some() {
            moves.extend((state.is_run && !state.is_filled).then_some(Move::Fill));
        }
        moves.extend(state.holds_brought.then_some(Move::DropBrought));
        if self.fetches.is_some_and(|at| state.handles[at] > 0) && !state.is_asked {
            moves.push(Move::Fetch);
        }
        let owned = state.id.and_then(|id| state.tables[0].owned.get(&id));
        let is_gone = state.frees > 0 || owned.is_some_and(|owned| owned.cell == Cell::Failed);
        if self.revives && is_gone && !state.is_revived {
            moves.push(Move::Revive);
        }
        if self.mortal.is_some() && state.crashed.is_none() {
            moves.push(Move::Crash);
        }
        if self.ends.is_some() && !state.is_ending {
            moves.push(Move::End);
        }
        let bundles = state.bundles.iter().filter(|(_, to, _)| !is_dead(*to));
        moves.extend(bundles.map(|(from, to, bundle)| Move::Hear(*from, *to, bundle.clone())));
    }

    fn next_state(&self, state: &Cluster, action: Move) -> Option<Cluster> {
        let mut next = state.clone();
        next.act(action, self);
        Some(next).filter(|next| next != state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no early free", |model, state: &Cluster| {
                !state.failed && (state.frees == 0 || !state.is_needed(model))
            }),
            Property::always("what is awaited comes", |_, state: &Cluster| {
                !state.is_forgotten()
            }),
            Property::always("nothing left at rest", |model, state: &Cluster| {
                !state.is_quiet(model) || state.is_clean(model)
            }),
            Property::always("settled calls", |_, state: &Cluster| !state.ran_early),
            Property::always("what is given is there", |_, state: &Cluster| !state.ran_lost),
            Property::always("what is held again is made again", |_, state: &Cluster| {
                !state.stays_gone
            }),
            Property::always("counted load", |_, state: &Cluster| {
                state.tables.iter().all(|table| table.is_load_counted())
            }),
            Property::always("frees once", |_, state: &Cluster| state.frees <= 1),
            Property::always("all is answered", |model, state: &Cluster| {
                !state.is_unanswered(model)
            }),
            Property::eventually("comes to rest", |model, state: &Cluster| state.is_clean(model)),
        ]
    }
}

/// Explores all states. Returns the names of the properties that do not hold.
fn faults(scenario: &Scenario) -> Vec<&'static str> {
    explore(scenario, HasDiscoveries::All)
}

/// Explores states until there is enough of what does not hold. Returns the names of these properties.
fn explore(scenario: &Scenario, enough: HasDiscoveries) -> Vec<&'static str> {
    let checker = scenario.clone().checker().threads(1).finish_when(enough);
    let checker = checker.spawn_bfs().join();
    let discoveries = checker.discoveries();
    let states = checker.unique_state_count();
    println!("{:?} {:?}: {states} states", scenario.mutant, scenario.passes);
    for (name, path) in &discoveries {
        println!("  {name}: {} steps", path.clone().into_actions().len());
    }
    let mut faults: Vec<_> = discoveries.into_keys().collect();
    faults.sort_unstable();
    faults
}

impl Refs {
    /// Whether the counted entries of every peer are those in the tables.
    fn is_load_counted(&self) -> bool {
        self.links
            .iter()
            .all(|(peer, link)| link.entries == self.recount(*peer))
    }

    fn recount(&self, peer: Peer) -> usize {
        let owned = self.owned.values();
        let listed = owned.map(|it| it.forks.get(&peer).map_or(0, |forks| forks.len()) + it.fetches_of(peer));
        let held = self.held.iter().map(|(id, it)| {
            let is_its = id.owner == peer && it.stage != Stage::Lost;
            let children = it.children.values().filter(|child| **child == peer);
            usize::from(is_its) + children.count() + it.owed_to(peer)
        });
        let calls = self.calls.values().filter(|it| it.from == peer);
        listed.sum::<usize>() + held.sum::<usize>() + calls.count()
    }
}
