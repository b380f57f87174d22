//! A plan as NCCL calls: the calls that each lane, as a rank with one stream, enqueues in an execution.
//!
//! Work makes no calls; nor do inputs and outputs, which the host moves. The other steps, in the order of the lane:
//! - a WRITE with a rendezvous sends the value to every lane that reads it, as one group, and the first READ of such a
//!   lane receives it;
//! - a COLLECTIVE is an allreduce on the communicator of its actors;
//! - a value that stays on its lane is a word in memory: the WRITE stores it, and a READ waits for it.
//!
//! All calls of a lane go to one stream, so they have one order across all communicators, as NCCL requires on one
//! device, and that order is the lane's chain in the proof. Receives that are only posted (`Settings::overlap`) do not
//! change the order: the transfers of a lane run in their order (`LIVE-4`), and work that waits for them moves nothing
//! between lanes.
//!
//! No two values and no two collectives have equally many elements, so a call that meets the wrong peer does not match
//! it, and never completes.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_compiler::ir::{CollectiveId, OpKind, Operation, Origin, Plan, TaskId, ValueId};
use selvedge_core::{ActorId, LaneId};

/// The way in which a value goes to several lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// By a group of sends, each of which completes by itself.
    Sends,
    /// By a broadcast, which no rank leaves before all have arrived, as in the prover's model.
    Broadcast,
}

/// The purpose of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// Values that go from one lane to one other.
    Messages,
    /// The values that one lane writes and several read.
    Readers,
    /// The collectives of one list of actors.
    Group,
}

/// A communicator: its lanes, by rank.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Members {
    pub purpose: Purpose,
    pub lanes: Vec<usize>,
    /// The number of this communicator among those with equal lanes and purpose.
    pub number: usize,
}

/// The operation of a rank. Ranks are those of the communicator.
#[derive(Clone, Copy, Debug)]
pub enum Verb {
    Send { to: usize },
    Receive { from: usize },
    Broadcast { root: usize },
    AllReduce,
}

/// An operation that a lane enqueues.
#[derive(Clone, Debug)]
pub enum Call {
    Nccl {
        members: Members,
        verb: Verb,
        count: usize,
    },
    /// Stores the word of a value that stays on its lane.
    Put(usize),
    /// Waits for the word of such a value.
    Await(usize),
}

impl Call {
    /// The communicator of the call; `None` for a call that is not NCCL's.
    pub fn members(&self) -> Option<&Members> {
        match self {
            Call::Nccl { members, .. } => Some(members),
            Call::Put(_) | Call::Await(_) => None,
        }
    }
}

/// A lane's calls in order; each inner list is one group.
pub type List = Vec<Vec<Call>>;

impl Members {
    fn of(purpose: Purpose, mut lanes: Vec<usize>, number: usize) -> Self {
        lanes.sort_unstable();
        lanes.dedup();
        Members {
            purpose,
            lanes,
            number,
        }
    }

    pub fn rank(&self, lane: usize) -> usize {
        self.lanes.iter().position(|it| *it == lane).unwrap()
    }
}

struct Lowering<'a> {
    plan: &'a Plan,
    spread: Spread,
    lane_of: BTreeMap<ActorId, usize>,
    /// By value: the lanes, other than the writer's, that read it.
    readers: Vec<Vec<usize>>,
    groups: BTreeMap<CollectiveId, Members>,
}

/// The lists of all lanes of a well-formed plan in which every edge between lanes is a rendezvous.
pub fn calls(plan: &Plan, spread: Spread) -> Vec<List> {
    let lowering = Lowering::of(plan, spread);
    (0..plan.lanes.len()).map(|lane| lowering.list(lane)).collect()
}

/// Whether any value is read by more than one lane besides its writer's.
pub fn has_several_readers(plan: &Plan) -> bool {
    let lowering = Lowering::of(plan, Spread::Sends);
    lowering.readers.iter().any(|readers| readers.len() > 1)
}

impl<'a> Lowering<'a> {
    fn of(plan: &'a Plan, spread: Spread) -> Self {
        let number: BTreeMap<LaneId, usize> = (0..)
            .zip(&plan.lanes)
            .map(|(it, lane)| (lane.address.lane, it))
            .collect();
        let actors = plan.ir.actors.iter();
        let lane_of = actors
            .filter_map(|actor| Some((actor.id, *number.get(&actor.lane)?)))
            .collect();
        let mut readers = vec![Vec::new(); plan.ir.values.len()];
        for (lane, program) in plan.lanes.iter().enumerate() {
            for value in program.values.iter().filter(|value| value.meets) {
                readers[value.value.0 as usize].push(lane);
            }
        }
        let mut lowering = Lowering {
            plan,
            spread,
            lane_of,
            readers,
            groups: BTreeMap::new(),
        };
        lowering.groups = lowering.groups();
        lowering
    }

    /// The communicator of each collective: one for each list of actors.
    fn groups(&self) -> BTreeMap<CollectiveId, Members> {
        let mut ranks: BTreeMap<CollectiveId, Vec<ActorId>> = BTreeMap::new();
        for task in &self.plan.ir.tasks {
            if let Some(collective) = task.collective {
                ranks.entry(collective).or_default().push(task.actor);
            }
        }
        let mut known: Vec<(Vec<ActorId>, Members)> = Vec::new();
        let mut groups = BTreeMap::new();
        for (collective, actors) in ranks {
            let of_actors = |(it, _): &&(Vec<ActorId>, Members)| *it == actors;
            let members = match known.iter().find(of_actors) {
                Some((_, members)) => members.clone(),
                None => {
                    let lanes: Vec<usize> = actors.iter().map(|actor| self.lane_of[actor]).collect();
                    let first = Members::of(Purpose::Group, lanes.clone(), 0);
                    let alike = known.iter().filter(|(_, it)| it.lanes == first.lanes).count();
                    let members = Members::of(Purpose::Group, lanes, alike);
                    known.push((actors, members.clone()));
                    members
                }
            };
            groups.insert(collective, members);
        }
        groups
    }

    fn lane_of_task(&self, task: TaskId) -> usize {
        self.lane_of[&self.plan.ir.task(task).unwrap().actor]
    }

    fn list(&self, lane: usize) -> List {
        let mut met = BTreeSet::new();
        let steps = &self.plan.lanes[lane].steps;
        let groups = steps.iter().flat_map(|step| self.step(lane, *step, &mut met));
        groups.filter(|group| !group.is_empty()).collect()
    }

    /// The calls of a step, as groups, most of which are one call.
    fn step(&self, lane: usize, step: Operation, met: &mut BTreeSet<ValueId>) -> List {
        match step.kind {
            OpKind::Compute => Vec::new(),
            OpKind::Collective => {
                let collective = self.plan.ir.task(step.task).unwrap().collective.unwrap();
                vec![vec![Call::Nccl {
                    members: self.groups[&collective].clone(),
                    verb: Verb::AllReduce,
                    count: collective.0 as usize + 1,
                }]]
            }
            OpKind::Read { .. } => {
                let value = self.plan.ir.read_by(step);
                let made = value.and_then(|value| Some((value, self.plan.ir.maker(value)?)));
                let Some((value, maker)) = made else {
                    return Vec::new();
                };
                let writer = self.lane_of_task(maker);
                if writer == lane {
                    return vec![vec![Call::Await(value.0 as usize)]];
                }
                assert!(self.readers[value.0 as usize].contains(&lane), "a buffered edge");
                // A second READ of a value needs no call: the value has arrived.
                let first = met.insert(value);
                if first {
                    vec![vec![self.receive(value, writer)]]
                } else {
                    Vec::new()
                }
            }
            OpKind::Write => {
                let values = (0u32..).zip(&self.plan.ir.values);
                let mine = values.filter(|(_, it)| it.origin == Origin::Task(step.task));
                mine.flat_map(|(value, _)| self.write(lane, ValueId(value)))
                    .collect()
            }
        }
    }

    fn messages(&self) -> Members {
        Members::of(Purpose::Messages, (0..self.plan.lanes.len()).collect(), 0)
    }

    /// The broadcast of a value; `None` if the value goes by sends.
    fn broadcast(&self, value: ValueId, writer: usize) -> Option<Call> {
        let readers = &self.readers[value.0 as usize];
        let asked = self.spread == Spread::Broadcast && readers.len() > 1;
        asked.then(|| {
            let lanes = readers.iter().copied().chain([writer]).collect();
            let members = Members::of(Purpose::Readers, lanes, 0);
            let root = members.rank(writer);
            Call::Nccl {
                members,
                verb: Verb::Broadcast { root },
                count: value.0 as usize + 1,
            }
        })
    }

    fn receive(&self, value: ValueId, writer: usize) -> Call {
        self.broadcast(value, writer).unwrap_or_else(|| Call::Nccl {
            members: self.messages(),
            verb: Verb::Receive { from: writer },
            count: value.0 as usize + 1,
        })
    }

    fn write(&self, lane: usize, value: ValueId) -> List {
        let send = |to: &usize| Call::Nccl {
            members: self.messages(),
            verb: Verb::Send { to: *to },
            count: value.0 as usize + 1,
        };
        let readers = self.readers[value.0 as usize].iter();
        let sent = self
            .broadcast(value, lane)
            .map_or_else(|| readers.map(send).collect(), |call| vec![call]);
        vec![sent, vec![Call::Put(value.0 as usize)]]
    }
}
