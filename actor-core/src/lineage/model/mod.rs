//! The model of the lineage (M9), explored state by state with stateright.
//!
//! Values lie with the workers that have made them, as in a store: a worker's death loses them, and the calls that it ran. A worker may
//! be declared dead although it lives: its results come late, and must be refused. The user holds some of the values, and drops
//! them at any time; a call that nobody holds goes on until it ends. In some graphs a function may fail by itself, a worker may give a call back
//! or die before it has got one, a store may drop a value, a loss may be told twice, or a value may stand for another one. A pure call may
//! submit others while it runs, and submits them again when it runs again: it holds them until it ends or its worker dies. The properties:
//! - `refused` (LINEAGE-2): a result counts only if its attempt does, so a value that is there is never replaced;
//! - `once` (LINEAGE-3): a call has at most one attempt that counts, and is not run while its value is there;
//! - `ready`: a call that runs finds its inputs, unless they are lost meanwhile;
//! - `counted` (LINEAGE-1, LINEAGE-7): no call is begun more often than it may, one that is not pure not even if the call that submits it runs again;
//! - `adopted` (LINEAGE-7): a call that is submitted again is not begun anew while it is known, or has a copy of its value;
//! - `kept` (LINEAGE-4): a value that is held is there, on its way, or has its failure;
//! - `told` (LINEAGE-6): a failure says why, rightly;
//! - `ends`: whatever dies within the budget, every call that is held ends, and nothing is left when all is dropped.

mod ends;
mod scenarios;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use selvedge_cluster::peer::ProcessId;
use stateright::{Checker, Model, Property};

use super::call_digest::CallDigest;
use super::mutant::LineageMutant;
use super::{Lineage, LineageStep, Loss, Lost, NestedSpec, Spec};
use crate::process_end::ProcessEnd;

#[derive(Clone, Debug)]
struct Graph {
    /// The inputs and the retries of each call, from 0. A call reads earlier ones.
    calls: Vec<(&'static [u64], Option<u32>)>,
    /// The calls that others submit, in the order in which each one does: their places go on after those of `calls`.
    nested: Vec<NestedCall>,
    /// The deaths that may happen.
    deaths: u32,
    /// Whether a worker that was declared dead may still send results.
    stale: bool,
    bytes_max: usize,
    /// What else may happen.
    extras: Vec<Extra>,
    mutant: LineageMutant,
}

/// Something that may happen besides deaths and losses.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Extra {
    /// A function fails by itself.
    Fails,
    /// A worker gives a call back whose input was lost, before its function has begun.
    Withdraws,
    /// A worker dies that never got one of its calls.
    NeverGets,
    /// A value is dropped for want of room.
    Drops,
    /// A loss is told twice.
    TellsTwice,
    /// The value of the first call stands for that of the second one.
    Follows(u64, u64),
}

#[derive(Clone, Debug)]
struct NestedCall {
    outer: u64,
    inputs: &'static [u64],
    retries: Option<u32>,
    /// Whether the user gets a reference to the value.
    is_shown: bool,
}

impl Graph {
    fn may(&self, extra: Extra) -> bool {
        self.extras.contains(&extra)
    }

    /// The call whose value stands for that of another one, and that one.
    fn follower(&self) -> Option<(u64, u64)> {
        let follower = |extra: &Extra| match extra {
            Extra::Follows(call, target) => Some((*call, *target)),
            _ => None,
        };
        self.extras.iter().find_map(follower)
    }

    /// The inputs and the retries of a call.
    fn call(&self, call: u64) -> (&'static [u64], Option<u32>) {
        let place = (call % PLACES) as usize;
        match self.calls.get(place) {
            Some(call) => *call,
            None => {
                let nested = &self.nested[place - self.calls.len()];
                (nested.inputs, nested.retries)
            }
        }
    }

    /// The places of the calls that a call submits.
    fn nested_in(&self, call: u64) -> Vec<u64> {
        let nested = (self.calls.len() as u64..).zip(&self.nested);
        let nested = nested.filter(|(_, nested)| nested.outer == call % PLACES);
        nested.map(|(place, _)| place).collect()
    }
}

const WORKERS: u32 = 2;
/// The number of a call is its place, and this much more each time that it is submitted anew.
const PLACES: u64 = 100;

/// An attempt of a call at a worker in one of its lives.
type TriedCall = (u64, u32, (u32, u32));

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct LineageHost {
    lineage: Lineage,
    /// Calls that are to run, with the attempt and the number of missing inputs.
    queued: BTreeMap<u64, (u32, usize)>,
    running: BTreeSet<TriedCall>,
    /// Attempts of workers that were declared dead, whose results may still come.
    late: BTreeSet<TriedCall>,
    /// The values that are there, each with its worker.
    values: BTreeMap<u64, u32>,
    /// The failures that are there: of what was lost, or of the function itself.
    failures: BTreeMap<u64, Option<Lost>>,
    /// The attempts at workers whose inputs were lost.
    without_input: BTreeSet<TriedCall>,
    /// The losses that may be told once more.
    told: BTreeSet<u64>,
    /// The call whose function has returned the reference to another value, which is not there.
    stands: Option<u64>,
    /// A call that holds the one that its value stands for, until it is forgotten, and that one.
    follows: Option<(u64, u64)>,
    held: BTreeSet<u64>,
    /// The number of calls that each running attempt has submitted.
    submitted: BTreeMap<TriedCall, usize>,
    /// The calls that running attempts hold.
    held_by: BTreeSet<(TriedCall, u64)>,
    /// The calls that are held on behalf of outer ones.
    held_for_outer: BTreeSet<u64>,
    /// The calls that nobody holds, and that have not ended.
    released: BTreeSet<u64>,
    /// The nested calls that nested calls read, and those of these that hold what they read, since they have not ended.
    reads: BTreeMap<u64, Vec<u64>>,
    readers: BTreeSet<u64>,
    /// The numbers of the nested calls, by their places.
    numbers: BTreeMap<u64, u64>,
    lives: BTreeMap<u32, u32>,
    deaths: u32,
    begun: BTreeMap<u64, u32>,
    fault: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq)]
enum LineageTurn {
    Start(u64, u32),
    /// A running attempt submits the next one of its calls.
    Submit(TriedCall),
    End(TriedCall),
    Late(TriedCall),
    Die(u32),
    /// The worker of an attempt dies, which it never got.
    DieBefore(TriedCall),
    /// The last copy of a value is lost, and nothing else.
    Lose(u64),
    /// The store drops a value for want of room.
    LoseDropped(u64),
    TellAgain(u64),
    Fail(TriedCall),
    Withdraw(TriedCall),
    Drop(u64),
}

fn process(worker: u32) -> ProcessId {
    ProcessId::new(worker + 2).unwrap()
}

/// The loss of a call whose worker has died.
fn death(process: ProcessId) -> Loss {
    let end = Arc::new(ProcessEnd::unknown());
    Loss::Death { process, end }
}

impl LineageHost {
    fn expect(&mut self, holds: bool, property: &'static str) {
        if !holds {
            self.fault.get_or_insert(property);
        }
    }

    fn is_held(&self, call: u64) -> bool {
        let by_attempt = self.held_by.iter().any(|(_, held)| *held == call);
        let reads = |reader: &u64| self.reads.get(reader).is_some_and(|reads| reads.contains(&call));
        let is_read = self.readers.iter().any(reads);
        let is_followed = self.follows.is_some_and(|(_, target)| target == call);
        is_read
            || is_followed
            || by_attempt
            || self.held.contains(&call)
            || self.held_for_outer.contains(&call)
    }

    /// A call has ended: it does not hold what it reads any more.
    fn has_read(&mut self, call: u64) {
        self.readers.remove(&call);
        let reads = self.reads.get(&call).cloned();
        reads.into_iter().flatten().for_each(|read| self.look_at(read));
    }

    /// Somebody takes hold of a call that nobody held.
    fn hold(&mut self, call: u64) {
        if !self.released.remove(&call) {
            let steps = self.lineage.revived(call);
            self.perform(steps);
        }
    }

    /// Somebody does not hold a call any more. One that nobody holds goes on until it ends, as those of the product.
    fn look_at(&mut self, call: u64) {
        if self.is_held(call) {
            return;
        }
        if self.lineage.is_pending(call) {
            self.released.insert(call);
        } else {
            let steps = self.lineage.released(call);
            self.perform(steps);
        }
    }

    /// An attempt has ended: it holds nothing any more.
    fn let_go(&mut self, attempt: TriedCall) {
        self.without_input.remove(&attempt);
        self.submitted.remove(&attempt);
        let held: Vec<_> = self.held_by.extract_if(.., |(by, _)| *by == attempt).collect();
        for (_, call) in held {
            self.look_at(call);
        }
    }

    /// A running attempt submits the next one of its calls, which is adopted if it is known.
    fn submit(&mut self, graph: &Graph, attempt: TriedCall) {
        let count = self.submitted.entry(attempt).or_default();
        let place = graph.nested_in(attempt.0)[*count];
        *count += 1;
        let name = CallDigest::at_place(place);
        let known = self.lineage.named(name);
        let call = known.unwrap_or_else(|| self.submit_anew(graph, (attempt.0, place), name));
        let was_held = self.is_held(call);
        self.held_by.insert((attempt, call));
        if graph.nested[place as usize - graph.calls.len()].is_shown {
            self.held.insert(call);
        }
        if known.is_some() && !was_held {
            self.hold(call);
        }
    }

    fn submit_anew(&mut self, graph: &Graph, (outer, place): (u64, u64), name: CallDigest) -> u64 {
        let call = self.numbers.get(&place).map_or(place, |number| number + PLACES);
        let is_alive = |number: &u64| {
            let runs = self.running.iter().any(|(running, ..)| running == number);
            runs || self.values.contains_key(number) || self.queued.contains_key(number)
        };
        let is_known = self.numbers.get(&place).is_some_and(is_alive);
        self.expect(!is_known, "adopted");
        self.numbers.insert(place, call);
        let (inputs, retries) = graph.call(call);
        let spec = Spec {
            inputs: self.numbers_of(inputs),
            retries,
            bytes: 10,
        };
        self.reads.insert(call, spec.inputs.clone());
        self.readers.insert(call);
        let missing = self.lineage.submit(call, spec);
        self.queued.insert(call, (1, missing));
        if self.lineage.nest(call, NestedSpec { outer, name }) {
            self.held_for_outer.insert(call);
        }
        call
    }

    fn perform(&mut self, steps: Vec<LineageStep>) {
        for step in steps {
            match step {
                LineageStep::Run {
                    call,
                    attempt,
                    missing,
                } => {
                    let is_idle = !self.values.contains_key(&call) && !self.queued.contains_key(&call);
                    let runs = self.running.iter().any(|(running, ..)| *running == call);
                    self.expect(is_idle && !runs, "once");
                    let reads = self.reads.get(&call).cloned().unwrap_or_default();
                    let unheld: Vec<u64> = reads.into_iter().filter(|read| !self.is_held(*read)).collect();
                    self.queued.insert(call, (attempt, missing));
                    self.readers.insert(call);
                    unheld.into_iter().for_each(|read| self.hold(read));
                }
                LineageStep::InputMade { call } => {
                    if let Some((_, missing)) = self.queued.get_mut(&call) {
                        let was = *missing;
                        *missing = was.saturating_sub(1);
                        self.expect(was > 0, "ready");
                    }
                }
                LineageStep::InputLost { call } => {
                    if let Some((_, missing)) = self.queued.get_mut(&call) {
                        *missing += 1;
                    }
                    let running = self.running.iter().filter(|(running, ..)| *running == call);
                    self.without_input.extend(running);
                }
                LineageStep::Fail { call, why } => {
                    self.queued.remove(&call);
                    self.failures.insert(call, Some(why));
                    self.has_read(call);
                    self.end_released(call);
                }
                LineageStep::Drop { call } => {
                    let was_there = self.values.remove(&call).is_some();
                    self.expect(was_there && !self.is_held(call), "kept");
                    // If a loss makes somebody need it after all, the run that makes it anew is for that loss.
                    if self.lineage.is_remakeable(call) {
                        let begun = self.begun.entry(call).or_default();
                        *begun = begun.saturating_sub(1);
                    }
                }
                LineageStep::DropSpec { .. } => {}
                LineageStep::Forget { call } => {
                    self.expect(!self.is_held(call), "kept");
                    self.queued.remove(&call);
                    self.failures.remove(&call);
                    let given_up = self.running.extract_if(.., |(running, ..)| *running == call);
                    let given_up: Vec<TriedCall> = given_up.collect();
                    given_up.into_iter().for_each(|attempt| self.let_go(attempt));
                    self.has_read(call);
                    self.reads.remove(&call);
                    if let Some((_, target)) = self.follows.take_if(|(follower, _)| *follower == call) {
                        self.look_at(target);
                    }
                }
                LineageStep::LetGo { call } => {
                    let was_held = self.held_for_outer.remove(&call);
                    self.expect(was_held, "kept");
                    self.look_at(call);
                }
            }
        }
    }

    /// Whether a failure is the right one.
    fn is_told(&self, graph: &Graph) -> bool {
        // A failure may be that of an input.
        let of = |call: u64, lost: &Lost| {
            let mut calls = vec![call];
            while let Some(call) = calls.pop() {
                let (inputs, retries) = graph.call(call);
                let is_it = match (lost, retries) {
                    (Lost::NotPure { .. }, None) => true,
                    (Lost::RetriesSpent { deaths, attempts }, Some(retries)) => {
                        *deaths > retries && attempts >= deaths
                    }
                    (Lost::LineageDropped { .. }, Some(_)) => graph.bytes_max < 100,
                    _ => false,
                };
                if is_it {
                    return true;
                }
                calls.extend(inputs);
            }
            false
        };
        let lost = self.failures.iter();
        lost.filter_map(|(call, lost)| Some((call, lost.as_ref()?)))
            .all(|(call, lost)| of(*call, lost))
    }

    fn is_kept(&self) -> bool {
        let by_attempts = self.held_by.iter().map(|(_, call)| call);
        let held = self.held.iter().chain(&self.held_for_outer).chain(by_attempts);
        held.into_iter().all(|call| {
            let is_on_its_way =
                self.queued.contains_key(call) || self.running.iter().any(|(it, ..)| it == call);
            let is_on_its_way = is_on_its_way || self.stands == Some(*call);
            self.values.contains_key(call) || self.failures.contains_key(call) || is_on_its_way
        })
    }

    /// The numbers of the calls in these places.
    fn numbers_of(&self, places: &[u64]) -> Vec<u64> {
        let number = |place: &u64| self.numbers.get(place).copied().unwrap_or(*place);
        places.iter().map(number).collect()
    }

    fn is_over(&self) -> bool {
        let is_idle = self.queued.is_empty() && self.running.is_empty() && self.stands.is_none();
        is_idle && self.held.is_empty()
    }
}

impl Model for Graph {
    type State = LineageHost;
    type Action = LineageTurn;

    fn init_states(&self) -> Vec<LineageHost> {
        let mut lineage = Lineage::new(self.bytes_max);
        lineage.mutant = self.mutant;
        let mut queued = BTreeMap::new();
        for (call, (inputs, retries)) in (0..).zip(&self.calls) {
            let spec = Spec {
                inputs: inputs.to_vec(),
                retries: *retries,
                bytes: 10,
            };
            queued.insert(call, (1, lineage.submit(call, spec)));
        }
        vec![LineageHost {
            lineage,
            queued,
            running: BTreeSet::new(),
            late: BTreeSet::new(),
            values: BTreeMap::new(),
            failures: BTreeMap::new(),
            without_input: BTreeSet::new(),
            told: BTreeSet::new(),
            stands: None,
            follows: self.follower(),
            held: (0..self.calls.len() as u64).collect(),
            submitted: BTreeMap::new(),
            held_by: BTreeSet::new(),
            held_for_outer: BTreeSet::new(),
            released: BTreeSet::new(),
            reads: BTreeMap::new(),
            readers: BTreeSet::new(),
            numbers: BTreeMap::new(),
            lives: BTreeMap::new(),
            deaths: 0,
            begun: BTreeMap::new(),
            fault: None,
        }]
    }

    fn actions(&self, state: &LineageHost, turns: &mut Vec<LineageTurn>) {
        let ready = state.queued.iter().filter(|(_, (_, missing))| *missing == 0);
        for (call, _) in ready {
            turns.extend((0..WORKERS).map(|worker| LineageTurn::Start(*call, worker)));
        }
        for attempt in &state.running {
            let submitted = state.submitted.get(attempt).copied().unwrap_or_default();
            turns.push(match submitted < self.nested_in(attempt.0).len() {
                true => LineageTurn::Submit(*attempt),
                false => LineageTurn::End(*attempt),
            });
            turns.extend(self.may(Extra::Fails).then_some(LineageTurn::Fail(*attempt)));
            let is_early = submitted == 0 && state.deaths < self.deaths;
            turns
                .extend((is_early && self.may(Extra::NeverGets)).then_some(LineageTurn::DieBefore(*attempt)));
        }
        if self.may(Extra::Withdraws) {
            let not_begun = |attempt: &&TriedCall| !state.submitted.contains_key(attempt);
            let withdrawn = state.without_input.iter().filter(not_begun);
            turns.extend(withdrawn.map(|attempt| LineageTurn::Withdraw(*attempt)));
        }
        turns.extend(state.told.iter().map(|call| LineageTurn::TellAgain(*call)));
        turns.extend(state.late.iter().map(|attempt| LineageTurn::Late(*attempt)));
        if state.deaths < self.deaths {
            turns.extend((0..WORKERS).map(LineageTurn::Die));
            let follower = self.follower().map(|(follower, _)| follower);
            let values = state.values.keys().filter(|call| Some(**call) != follower);
            for call in values {
                turns.push(LineageTurn::Lose(*call));
                turns.extend(self.may(Extra::Drops).then_some(LineageTurn::LoseDropped(*call)));
            }
        }
        turns.extend(state.held.iter().map(|call| LineageTurn::Drop(*call)));
    }

    fn next_state(&self, state: &LineageHost, turn: LineageTurn) -> Option<LineageHost> {
        let mut next = state.clone();
        match turn {
            LineageTurn::Start(call, worker) => {
                let (attempt, _) = next.queued.remove(&call)?;
                let life = *next.lives.entry(worker).or_default();
                let (inputs, retries) = self.call(call);
                let inputs: Vec<u64> = next.numbers_of(inputs);
                let are_there = inputs
                    .iter()
                    .all(|input| next.values.contains_key(input) || next.failures.contains_key(input));
                next.expect(are_there, "ready");
                let counted = retries.map_or(call % PLACES, |_| call);
                *next.begun.entry(counted).or_default() += 1;
                next.running.insert((call, attempt, (worker, life)));
            }
            LineageTurn::Submit(attempt) => next.submit(self, attempt),
            LineageTurn::End(attempt) => {
                next.running.remove(&attempt);
                next.end(self, attempt, false);
                next.let_go(attempt);
            }
            LineageTurn::Late(attempt) => {
                next.late.remove(&attempt);
                next.end(self, attempt, true);
            }
            LineageTurn::Fail(attempt) => {
                next.running.remove(&attempt);
                next.fail(attempt.0, attempt.1);
                next.let_go(attempt);
                next.follow(self);
            }
            LineageTurn::Withdraw(attempt) => {
                next.running.remove(&attempt);
                next.let_go(attempt);
                next.not_begun(attempt.0);
                let steps = next.lineage.withdrawn(attempt.0, attempt.1);
                next.perform(steps);
            }
            LineageTurn::Die(worker) => next.die(self, worker, None),
            LineageTurn::DieBefore(attempt) => next.die(self, attempt.2.0, Some(attempt)),
            LineageTurn::Lose(call) | LineageTurn::LoseDropped(call) => {
                next.deaths += 1;
                next.values.remove(&call);
                next.lose(self, call, matches!(turn, LineageTurn::LoseDropped(_)));
            }
            LineageTurn::TellAgain(call) => {
                next.told.remove(&call);
                let steps = next.lineage.lost(call, false);
                next.perform(steps);
            }
            LineageTurn::Drop(call) => {
                next.held.remove(&call);
                next.look_at(call);
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("refused", |_, state: &LineageHost| state.fault != Some("refused")),
            Property::always("once", |_, state: &LineageHost| state.fault != Some("once")),
            Property::always("adopted", |_, state: &LineageHost| state.fault != Some("adopted")),
            Property::always("ready", |_, state: &LineageHost| state.fault != Some("ready")),
            Property::always("kept", |_, state: &LineageHost| {
                state.fault != Some("kept") && state.is_kept()
            }),
            Property::always("counted", |graph: &Graph, state: &LineageHost| {
                let most = |call: u64| graph.call(call).1.map_or(1, |retries| retries + 1);
                state.begun.iter().all(|(call, begun)| *begun <= most(*call))
            }),
            Property::always("told", |graph: &Graph, state: &LineageHost| state.is_told(graph)),
            Property::always("nothing left", |_, state: &LineageHost| {
                let is_empty = state.values.is_empty() && state.held_for_outer.is_empty();
                !state.is_over() || is_empty && state.lineage.len() == 0
            }),
            Property::eventually("ends", |_, state: &LineageHost| state.is_over()),
        ]
    }
}

/// Explores all states. Returns the names of the properties that do not hold.
fn faults(graph: &Graph) -> Vec<&'static str> {
    let checker = graph.clone().checker().threads(1).spawn_bfs().join();
    let discoveries = checker.discoveries();
    let states = checker.unique_state_count();
    println!(
        "{:?} {:?} {:?}, {} deaths: {states} states",
        graph.mutant, graph.calls, graph.nested, graph.deaths
    );
    for (name, path) in &discoveries {
        println!("  {name}: {} steps", path.clone().into_actions().len());
    }
    let mut faults: Vec<_> = discoveries.into_keys().collect();
    faults.sort_unstable();
    faults
}
