//! A machine that runs plans over numbers: lanes, bounded queues, rendezvous and collectives, one step of one lane at a
//! time in any order. It implements the meaning of steps, without any code of the compiler or the prover.
//!
//! A value is a hash of its inputs, so equal outputs mean that every COMPUTE saw the right inputs of the right
//! execution, once.
#![allow(dead_code, unreachable_pub)] // each test file uses only a part

mod values;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use selvedge_compiler::ir::{ArgIr, ChannelKind, ChannelPlan, OpKind, Origin, Plan, ValueId};
use selvedge_core::{ActorId, LaneId};
use values::{given, made, part_of, reduced, sequential};

/// A small generator of random numbers; every failure prints its seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Act {
    /// Receives the argument from its inlet.
    Read {
        inlet: usize,
        first: bool,
    },
    Work,
    Write,
}

struct Step {
    act: Act,
    task: usize,
}

/// A lane's end of a value.
struct Inlet {
    lane: usize,
    capacity: usize,
    meets: bool,
    reads: u32,
    left: u32,
    queue: VecDeque<u64>,
    /// The number of receives posted so far.
    posted: u64,
    /// The number of messages released so far, which is also the execution of the front of the queue.
    consumed: u64,
}

struct Lane {
    steps: Vec<Step>,
    at: usize,
    execution: u64,
    /// The transfers of one execution, in order, followed by the number of transfers that have run in all.
    transfers: Vec<Transfer>,
    transferred: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Transfer {
    Write(usize),
    Collective(usize),
}

struct Collective {
    ranks: Vec<usize>,
    posted: Vec<u64>,
    completed: u64,
    results: VecDeque<(u64, u64, u32)>,
}

/// The channels that a writer fills: of two of one kind for a value, only the last. Each host has a mirror.
fn filled(plan: &Plan) -> BTreeSet<u32> {
    let mut last: BTreeMap<(ValueId, u8, u32), u32> = BTreeMap::new();
    for channel in &plan.channels {
        let key = (channel.value, channel.kind as u8, channel.host().0);
        last.insert(key, channel.id.0);
    }
    last.into_values().collect()
}

fn capacity(channel: &ChannelPlan) -> usize {
    match channel.kind {
        ChannelKind::Local => 1,
        _ => channel.slots as usize,
    }
}

/// The inlet of a reader of a channel that never reads from it.
fn idle(channel: &ChannelPlan) -> Inlet {
    Inlet {
        lane: usize::MAX,
        capacity: capacity(channel),
        meets: false,
        reads: 0,
        left: 0,
        queue: VecDeque::new(),
        posted: 0,
        consumed: 0,
    }
}

pub struct Machine<'a> {
    plan: &'a Plan,
    lanes: Vec<Lane>,
    inlets: Vec<Inlet>,
    /// By value: the inlets of the value that its writer fills.
    readers: Vec<Vec<usize>>,
    /// The inlets of the graph's outputs.
    results_in: Vec<usize>,
    /// By task: the values that it makes, and the inlets of its arguments.
    makes: Vec<Vec<usize>>,
    args: Vec<Vec<Option<usize>>>,
    lane_of: Vec<usize>,
    /// By task: the task's result in the current execution of its lane.
    results: Vec<u64>,
    collectives: Vec<Collective>,
    collective_of: Vec<Option<usize>>,
    submitted: u64,
    collected: u64,
    pub outputs: Vec<Vec<u64>>,
}

impl<'a> Machine<'a> {
    pub fn new(plan: &'a Plan) -> Self {
        let graph = &plan.ir;
        let number: BTreeMap<LaneId, usize> = plan
            .lanes
            .iter()
            .enumerate()
            .map(|(index, lane)| (lane.address.lane, index))
            .collect();
        let place: BTreeMap<ActorId, usize> = graph
            .actors
            .iter()
            .filter_map(|actor| Some((actor.id, *number.get(&actor.lane)?)))
            .collect();
        let mut inlets = Vec::new();
        let mut readers = vec![Vec::new(); graph.values.len()];
        let mut known: BTreeMap<(usize, ValueId), usize> = BTreeMap::new();
        let filled = filled(plan);
        for (lane, program) in plan.lanes.iter().enumerate() {
            for value in &program.values {
                let channel = &plan.channels[value.channel.0 as usize];
                known.insert((lane, value.value), inlets.len());
                if filled.contains(&channel.id.0) {
                    readers[value.value.0 as usize].push(inlets.len());
                }
                inlets.push(Inlet {
                    lane,
                    capacity: capacity(channel),
                    meets: value.meets,
                    reads: value.reads,
                    left: value.reads,
                    queue: VecDeque::new(),
                    posted: 0,
                    consumed: 0,
                });
            }
        }
        for channel in plan.channels.iter().filter(|it| filled.contains(&it.id.0)) {
            let reads = |reader: usize| {
                let mut values = plan.lanes.iter().flat_map(|lane| &lane.values);
                values.any(|value| value.channel == channel.id && usize::from(value.reader) == reader)
            };
            for _ in (0..channel.readers.len()).filter(|reader| !reads(*reader)) {
                readers[channel.value.0 as usize].push(inlets.len());
                inlets.push(idle(channel));
            }
        }
        let result_in = |value: &ValueId| known[&(0, *value)];
        let results_in = graph.outputs.iter().map(result_in).collect();
        let mut makes = vec![Vec::new(); graph.tasks.len()];
        for (value, it) in graph.values.iter().enumerate() {
            if let Origin::Task(task) = it.origin {
                makes[task.0 as usize].push(value);
            }
        }
        let lane_of: Vec<usize> = graph.tasks.iter().map(|task| place[&task.actor]).collect();
        let args: Vec<Vec<Option<usize>>> = graph
            .tasks
            .iter()
            .zip(&lane_of)
            .map(|(task, lane)| {
                let inlet = |arg: &ArgIr| match arg {
                    ArgIr::Value(value) => Some(known[&(*lane, *value)]),
                    ArgIr::Constant(_) => None,
                };
                task.args.iter().map(inlet).collect()
            })
            .collect();
        let mut groups: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (task, it) in graph.tasks.iter().enumerate() {
            if let Some(collective) = it.collective {
                groups.entry(collective.0).or_default().push(task);
            }
        }
        let mut collective_of = vec![None; graph.tasks.len()];
        let collectives: Vec<Collective> = groups
            .into_values()
            .enumerate()
            .map(|(index, ranks)| {
                ranks.iter().for_each(|rank| collective_of[*rank] = Some(index));
                Collective {
                    posted: vec![0; ranks.len()],
                    ranks,
                    completed: 0,
                    results: VecDeque::new(),
                }
            })
            .collect();
        let mut lanes = Vec::new();
        for program in &plan.lanes {
            let mut met = vec![false; inlets.len()];
            let mut transfers = Vec::new();
            let mut steps = Vec::new();
            for step in &program.steps {
                let task = step.task.0 as usize;
                let act = match step.kind {
                    OpKind::Read { arg } => {
                        let inlet = args[task][arg as usize].unwrap();
                        let first = inlets[inlet].meets && !std::mem::replace(&mut met[inlet], true);
                        if first {
                            let ArgIr::Value(value) = graph.tasks[task].args[arg as usize] else {
                                panic!()
                            };
                            let Origin::Task(writer) = graph.values[value.0 as usize].origin else {
                                panic!()
                            };
                            transfers.push(Transfer::Write(writer.0 as usize));
                        }
                        Act::Read { inlet, first }
                    }
                    OpKind::Compute => Act::Work,
                    OpKind::Collective => {
                        transfers.push(Transfer::Collective(collective_of[task].unwrap()));
                        Act::Work
                    }
                    OpKind::Write => {
                        let met = makes[task]
                            .iter()
                            .flat_map(|value| &readers[*value])
                            .any(|it: &usize| inlets[*it].meets);
                        if met {
                            transfers.push(Transfer::Write(task));
                        }
                        Act::Write
                    }
                };
                steps.push(Step { act, task });
            }
            transfers.dedup();
            lanes.push(Lane {
                steps,
                at: 0,
                execution: 0,
                transfers,
                transferred: 0,
            });
        }
        Machine {
            plan,
            lanes,
            inlets,
            readers,
            results_in,
            makes,
            args,
            lane_of,
            results: vec![0; graph.tasks.len()],
            collectives,
            collective_of,
            submitted: 0,
            collected: 0,
            outputs: Vec::new(),
        }
    }

    /// Runs `executions`, `inflight` at a time, and chooses at random among the parties that can move. Returns true if
    /// all executions end.
    pub fn run(&mut self, executions: u64, inflight: u64, random: &mut Random) -> bool {
        let parties = self.lanes.len() + 2;
        let mut idle = 0;
        while self.collected < executions {
            // Starts at a random party and goes around: the first party that can move does.
            let begin = random.below(parties);
            let moved = (0..parties).any(|offset| match (begin + offset) % parties {
                0 => self.submit(executions, inflight),
                1 => self.collect(),
                lane => self.step(lane - 2),
            });
            if !moved {
                return false;
            }
            idle += 1;
            assert!(idle < 10_000_000, "the machine does not come to an end");
        }
        true
    }

    fn has_room(&self, value: usize) -> bool {
        self.readers[value]
            .iter()
            .all(|inlet| self.inlets[*inlet].queue.len() < self.inlets[*inlet].capacity)
    }

    fn put(&mut self, value: usize, whole: u64) {
        let part = self.plan.ir.values[value].part;
        for inlet in self.readers[value].clone() {
            self.inlets[inlet].queue.push_back(part_of(whole, part));
        }
    }

    fn submit(&mut self, executions: u64, inflight: u64) -> bool {
        if self.submitted == executions || self.submitted - self.collected >= inflight {
            return false;
        }
        let values = &self.plan.ir.values;
        let inputs: Vec<(usize, u32)> = values
            .iter()
            .enumerate()
            .filter_map(|(value, it)| match it.origin {
                Origin::Input(leaf) => Some((value, leaf)),
                Origin::Task(_) => None,
            })
            .collect();
        if !inputs.iter().all(|(value, _)| self.has_room(*value)) {
            return false;
        }
        for (value, leaf) in inputs {
            self.put(value, given(leaf, self.submitted));
        }
        self.submitted += 1;
        true
    }

    /// Collects the outputs of an execution, once the driver's lane has reached its end and all outputs have arrived.
    fn collect(&mut self) -> bool {
        let driver = &self.lanes[0];
        if !driver.steps.is_empty() && driver.execution == self.collected {
            return false;
        }
        let outputs = self.results_in.clone();
        let fresh = |inlet: &usize| {
            let it = &self.inlets[*inlet];
            it.consumed == self.collected && !it.queue.is_empty()
        };
        if !outputs.iter().all(fresh) {
            return false;
        }
        self.outputs
            .push(outputs.iter().map(|inlet| self.inlets[*inlet].queue[0]).collect());
        outputs.into_iter().for_each(|inlet| self.read_done(inlet));
        self.collected += 1;
        true
    }

    fn read_done(&mut self, inlet: usize) {
        let inlet = &mut self.inlets[inlet];
        inlet.left -= 1;
        if inlet.left == 0 {
            inlet.left = inlet.reads;
            inlet.queue.pop_front();
            inlet.consumed += 1;
        }
    }

    /// Whether a lane holds the value of this execution at its end.
    fn is_there(&self, inlet: usize, execution: u64) -> bool {
        let it = &self.inlets[inlet];
        it.consumed == execution && !it.queue.is_empty()
    }

    fn advance(&mut self, lane: usize) {
        let lane = &mut self.lanes[lane];
        lane.at += 1;
        if lane.at == lane.steps.len() {
            (lane.at, lane.execution) = (0, lane.execution + 1);
        }
    }

    /// Runs one step of a lane. Returns false if the lane cannot move.
    fn step(&mut self, lane: usize) -> bool {
        let overlap = self.plan.settings.overlap;
        let Some(step) = self.lanes[lane].steps.get(self.lanes[lane].at) else {
            return false;
        };
        let (act, task, execution) = (step.act, step.task, self.lanes[lane].execution);
        // The driver's lane collects before it begins the next execution.
        if lane == 0 && execution > self.collected {
            return false;
        }
        match act {
            Act::Read { inlet, first: true } if overlap => self.inlets[inlet].posted += 1,
            // The writer moves both lanes.
            Act::Read { first: true, .. } => return false,
            Act::Read { inlet, first: false } => {
                if !self.is_there(inlet, execution) {
                    return false;
                }
            }
            Act::Work => match self.collective_of[task] {
                None => {
                    let there = self.args[task]
                        .iter()
                        .flatten()
                        .all(|inlet| self.is_there(*inlet, execution));
                    if !there {
                        return false;
                    }
                    self.results[task] = made(task, &self.values(task));
                    self.release(task);
                }
                Some(collective) if overlap => {
                    let there = self.args[task]
                        .iter()
                        .flatten()
                        .all(|inlet| self.is_there(*inlet, execution));
                    if !there {
                        return false;
                    }
                    let rank = self.collectives[collective]
                        .ranks
                        .iter()
                        .position(|it| *it == task)
                        .unwrap();
                    self.collectives[collective].posted[rank] += 1;
                    self.complete();
                }
                Some(collective) => return self.meet_all(collective, execution),
            },
            Act::Write => return self.write(lane, task, execution),
        }
        self.advance(lane);
        true
    }

    fn values(&self, task: usize) -> Vec<u64> {
        self.args[task]
            .iter()
            .map(|inlet| inlet.map_or(7, |inlet| self.inlets[inlet].queue[0]))
            .collect()
    }

    fn release(&mut self, task: usize) {
        let inlets: Vec<usize> = self.args[task].iter().flatten().copied().collect();
        inlets.into_iter().for_each(|inlet| self.read_done(inlet));
    }

    /// Runs a collective that no rank leaves before all have arrived.
    fn meet_all(&mut self, collective: usize, execution: u64) -> bool {
        let ranks = self.collectives[collective].ranks.clone();
        let there = ranks.iter().all(|rank| {
            let lane = &self.lanes[self.lane_of[*rank]];
            let here = lane
                .steps
                .get(lane.at)
                .is_some_and(|step| step.act == Act::Work && step.task == *rank);
            here && lane.execution == execution
                && self.args[*rank]
                    .iter()
                    .flatten()
                    .all(|inlet| self.is_there(*inlet, execution))
        });
        if !there {
            return false;
        }
        let all: Vec<u64> = ranks.iter().flat_map(|rank| self.values(*rank)).collect();
        let id = self.plan.ir.tasks[ranks[0]].collective.unwrap().0;
        for rank in ranks {
            self.results[rank] = reduced(id, &all);
            self.release(rank);
            self.advance(self.lane_of[rank]);
        }
        true
    }

    /// Whether a transfer is the next one of a lane.
    fn is_next(&self, lane: usize, transfer: Transfer) -> bool {
        let lane = &self.lanes[lane];
        let count = lane.transfers.len() as u64;
        count > 0 && lane.transfers[(lane.transferred % count) as usize] == transfer
    }

    /// Completes all posted collectives that can complete, one after another.
    fn complete(&mut self) {
        while self.complete_some() {}
    }

    fn complete_some(&mut self) -> bool {
        let mut any = false;
        for index in 0..self.collectives.len() {
            let it = &self.collectives[index];
            let lanes: Vec<usize> = it.ranks.iter().map(|rank| self.lane_of[*rank]).collect();
            let posted = it.posted.iter().all(|posted| *posted > it.completed);
            if !posted
                || !lanes
                    .iter()
                    .all(|lane| self.is_next(*lane, Transfer::Collective(index)))
            {
                continue;
            }
            let ranks = it.ranks.clone();
            let all: Vec<u64> = ranks.iter().flat_map(|rank| self.values(*rank)).collect();
            let id = self.plan.ir.tasks[ranks[0]].collective.unwrap().0;
            let left = ranks.len() as u32;
            let it = &mut self.collectives[index];
            it.results.push_back((it.completed, reduced(id, &all), left));
            it.completed += 1;
            ranks.iter().for_each(|rank| self.release(*rank));
            lanes.iter().for_each(|lane| self.lanes[*lane].transferred += 1);
            any = true;
        }
        any
    }

    fn write(&mut self, lane: usize, task: usize, execution: u64) -> bool {
        let overlap = self.plan.settings.overlap;
        if !self.makes[task].iter().all(|value| self.has_room(*value)) {
            return false;
        }
        // The result of the posted collective, if this task is a rank of one.
        let collective = self.collective_of[task].filter(|_| overlap);
        let result = |it: &Collective| it.results.iter().position(|(at, ..)| *at == execution);
        let completed = collective.map(|index| (index, result(&self.collectives[index])));
        if let Some((_, None)) = completed {
            return false;
        }
        let meeting: Vec<usize> = self.makes[task]
            .iter()
            .flat_map(|value| &self.readers[*value])
            .copied()
            .filter(|inlet| self.inlets[*inlet].meets)
            .collect();
        if !meeting.is_empty() && overlap {
            let mut lanes: Vec<usize> = meeting.iter().map(|inlet| self.inlets[*inlet].lane).collect();
            lanes.push(lane);
            lanes.sort_unstable();
            lanes.dedup();
            let posted = meeting.iter().all(|inlet| self.inlets[*inlet].posted > execution);
            if !posted
                || !lanes
                    .iter()
                    .all(|lane| self.is_next(*lane, Transfer::Write(task)))
            {
                return false;
            }
            lanes
                .into_iter()
                .for_each(|lane| self.lanes[lane].transferred += 1);
        } else if !meeting.is_empty() {
            // Every reader must stand at its READ.
            let there = meeting.iter().all(|inlet| {
                let lane = &self.lanes[self.inlets[*inlet].lane];
                let step = lane.steps.get(lane.at);
                lane.execution == execution
                    && step.is_some_and(|step| {
                        step.act
                            == Act::Read {
                                inlet: *inlet,
                                first: true,
                            }
                    })
            });
            if !there {
                return false;
            }
            for inlet in &meeting {
                self.advance(self.inlets[*inlet].lane);
            }
        }
        if let Some((index, Some(found))) = completed {
            let results = &mut self.collectives[index].results;
            self.results[task] = results[found].1;
            results[found].2 -= 1;
            results.retain(|(_, _, left)| *left > 0);
        }
        let result = self.results[task];
        for value in self.makes[task].clone() {
            self.put(value, result);
        }
        self.advance(lane);
        self.complete();
        true
    }
}

/// Runs a plan over `executions` and compares every output with the plain evaluation. `Err` describes the first error.
pub fn simulate(plan: &Plan, executions: u64, inflight: u64, random: &mut Random) -> Result<(), String> {
    let mut machine = Machine::new(plan);
    if !machine.run(executions, inflight, random) {
        return Err("dead".to_owned());
    }
    for execution in 0..executions {
        if machine.outputs[execution as usize] != sequential(&plan.ir, execution) {
            return Err(format!("the outputs of execution {execution} are wrong"));
        }
    }
    Ok(())
}
