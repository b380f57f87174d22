//! The model of the lineage (M9), explored state by state with stateright.
//!
//! Values lie with the workers that have made them, as in a store: a worker's death loses them, and the calls that it ran. A worker may
//! be declared dead although it lives: its results come late, and must be refused. The user holds some of the values, and drops
//! them at any time. The properties:
//! - `refused` (LINEAGE-2): a result counts only if its attempt does, so a value that is there is never replaced;
//! - `once` (LINEAGE-3): a call has at most one attempt that counts, and is not run while its value is there;
//! - `ready`: a call that runs finds its inputs, unless they are lost meanwhile;
//! - `counted` (LINEAGE-1): no call is begun more often than it may;
//! - `kept` (LINEAGE-4): a value that is held is there, on its way, or has its failure;
//! - `told` (LINEAGE-6): a failure says why, rightly;
//! - `ends`: whatever dies within the budget, every call that is held ends, and nothing is left when all is dropped.

mod scenarios;

use std::collections::{BTreeMap, BTreeSet};

use selvedge_cluster::peer::ProcessId;
use stateright::{Checker, Model, Property};

use super::mutant::LineageMutant;
use super::{Lineage, LineageStep, Lost, Spec};

#[derive(Clone, Debug)]
struct Graph {
    /// The inputs and the retries of each call, from 0. A call reads earlier ones.
    calls: Vec<(&'static [u64], Option<u32>)>,
    /// The deaths that may happen.
    deaths: u32,
    /// Whether a worker that was declared dead may still send results.
    stale: bool,
    bytes_max: usize,
    mutant: LineageMutant,
}

const WORKERS: u32 = 2;

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
    failures: BTreeMap<u64, Lost>,
    held: BTreeSet<u64>,
    lives: BTreeMap<u32, u32>,
    deaths: u32,
    begun: BTreeMap<u64, u32>,
    fault: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq)]
enum LineageTurn {
    Start(u64, u32),
    End(TriedCall),
    Late(TriedCall),
    Die(u32),
    /// The last copy of a value is lost, and nothing else.
    Lose(u64),
    Drop(u64),
}

fn process(worker: u32) -> ProcessId {
    ProcessId::new(worker + 2).unwrap()
}

impl LineageHost {
    fn expect(&mut self, holds: bool, property: &'static str) {
        if !holds {
            self.fault.get_or_insert(property);
        }
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
                    self.queued.insert(call, (attempt, missing));
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
                }
                LineageStep::Fail { call, why } => {
                    self.queued.remove(&call);
                    self.failures.insert(call, why);
                }
                LineageStep::Drop { call } => {
                    let was_there = self.values.remove(&call).is_some();
                    self.expect(was_there && !self.held.contains(&call), "kept");
                }
                LineageStep::DropSpec { .. } => {}
                LineageStep::Forget { call } => {
                    self.expect(!self.held.contains(&call), "kept");
                    self.queued.remove(&call);
                    self.failures.remove(&call);
                    self.running.retain(|(running, ..)| *running != call);
                }
            }
        }
    }

    fn end(&mut self, (call, attempt, (worker, _)): TriedCall, is_late: bool) {
        let was_there = self.values.contains_key(&call);
        if let Some(steps) = self.lineage.made(call, attempt) {
            self.expect(!is_late && !was_there, "refused");
            self.values.insert(call, worker);
            self.perform(steps);
        }
    }

    fn die(&mut self, worker: u32, stale: bool) {
        self.deaths += 1;
        *self.lives.entry(worker).or_default() += 1;
        let ended: Vec<TriedCall> = self
            .running
            .extract_if(.., |(.., (at, _))| *at == worker)
            .collect();
        if stale {
            self.late.extend(ended.iter().copied());
        }
        let lost: Vec<u64> = self
            .values
            .extract_if(.., |_, at| *at == worker)
            .map(|(call, _)| call)
            .collect();
        for call in lost {
            let steps = self.lineage.lost(call, false);
            self.perform(steps);
        }
        for (call, attempt, _) in ended {
            let steps = self.lineage.died(call, attempt, process(worker), true);
            self.perform(steps);
        }
    }

    /// Whether a failure is the right one.
    fn is_told(&self, graph: &Graph) -> bool {
        // A failure may be that of an input.
        let of = |call: u64, lost: &Lost| {
            let mut calls = vec![call];
            while let Some(call) = calls.pop() {
                let (inputs, retries) = graph.calls[call as usize];
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
        self.failures.iter().all(|(call, lost)| of(*call, lost))
    }

    fn is_kept(&self) -> bool {
        self.held.iter().all(|call| {
            let is_on_its_way =
                self.queued.contains_key(call) || self.running.iter().any(|(it, ..)| it == call);
            self.values.contains_key(call) || self.failures.contains_key(call) || is_on_its_way
        })
    }

    fn is_over(&self) -> bool {
        self.queued.is_empty() && self.running.is_empty() && self.held.is_empty()
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
            held: (0..self.calls.len() as u64).collect(),
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
        turns.extend(state.running.iter().map(|attempt| LineageTurn::End(*attempt)));
        turns.extend(state.late.iter().map(|attempt| LineageTurn::Late(*attempt)));
        if state.deaths < self.deaths {
            turns.extend((0..WORKERS).map(LineageTurn::Die));
            turns.extend(state.values.keys().map(|call| LineageTurn::Lose(*call)));
        }
        turns.extend(state.held.iter().map(|call| LineageTurn::Drop(*call)));
    }

    fn next_state(&self, state: &LineageHost, turn: LineageTurn) -> Option<LineageHost> {
        let mut next = state.clone();
        match turn {
            LineageTurn::Start(call, worker) => {
                let (attempt, _) = next.queued.remove(&call)?;
                let life = *next.lives.entry(worker).or_default();
                let inputs = self.calls[call as usize].0.iter();
                let are_there = inputs
                    .clone()
                    .all(|input| next.values.contains_key(input) || next.failures.contains_key(input));
                next.expect(are_there, "ready");
                *next.begun.entry(call).or_default() += 1;
                next.running.insert((call, attempt, (worker, life)));
            }
            LineageTurn::End(attempt) => {
                next.running.remove(&attempt);
                next.end(attempt, false);
            }
            LineageTurn::Late(attempt) => {
                next.late.remove(&attempt);
                next.end(attempt, true);
            }
            LineageTurn::Die(worker) => next.die(worker, self.stale),
            LineageTurn::Lose(call) => {
                next.deaths += 1;
                next.values.remove(&call);
                let steps = next.lineage.lost(call, false);
                next.perform(steps);
            }
            LineageTurn::Drop(call) => {
                next.held.remove(&call);
                let steps = next.lineage.released(call);
                next.perform(steps);
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("refused", |_, state: &LineageHost| state.fault != Some("refused")),
            Property::always("once", |_, state: &LineageHost| state.fault != Some("once")),
            Property::always("ready", |_, state: &LineageHost| state.fault != Some("ready")),
            Property::always("kept", |_, state: &LineageHost| {
                state.fault != Some("kept") && state.is_kept()
            }),
            Property::always("counted", |graph: &Graph, state: &LineageHost| {
                let most = |call: u64| graph.calls[call as usize].1.map_or(1, |retries| retries + 1);
                state.begun.iter().all(|(call, begun)| *begun <= most(*call))
            }),
            Property::always("told", |graph: &Graph, state: &LineageHost| state.is_told(graph)),
            Property::always("nothing left", |_, state: &LineageHost| {
                !state.is_over() || state.values.is_empty() && state.lineage.len() == 0
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
        "{:?} {:?}, {} deaths: {states} states",
        graph.mutant, graph.calls, graph.deaths
    );
    for (name, path) in &discoveries {
        println!("  {name}: {} steps", path.clone().into_actions().len());
    }
    let mut faults: Vec<_> = discoveries.into_keys().collect();
    faults.sort_unstable();
    faults
}
