//! The form check: whether lane programs match the graph, with nothing missing, nothing twice, and channels that fit.

mod channels;

use selvedge_core::{ActorId, Address, IdMap, IdSet, LaneId};

use self::channels::{distinct, fits, mirrors, readers};
use crate::ir::{
    ArgIr, BindIndex, ChannelPlan, GraphIr, LaneProgram, OpKind, Origin, Plan, TaskIr, ValueId, ValueIr,
    Writer,
};

/// The operations that the check has met so far.
struct Met {
    tasks: Vec<MetTask>,
    /// By task and argument: whether it has been read. Constants count as read.
    read: Vec<bool>,
}

#[derive(Clone, Copy)]
struct MetTask {
    /// The index in `read` of the task's first argument.
    first: usize,
    args: usize,
    computed: bool,
    written: bool,
}

impl Met {
    fn nothing_of(tasks: &[TaskIr]) -> Self {
        let mut met = Met {
            tasks: Vec::with_capacity(tasks.len()),
            read: Vec::with_capacity(tasks.len() * 2),
        };
        for task in tasks {
            met.tasks.push(MetTask {
                first: met.read.len(),
                args: task.args.len(),
                computed: false,
                written: false,
            });
            let constants = task.args.iter().map(|arg| matches!(arg, ArgIr::Constant(_)));
            met.read.extend(constants);
        }
        met
    }

    fn read(&mut self, task: MetTask, arg: u32) -> bool {
        let arg = arg as usize;
        let read = self.read.get_mut(task.first + arg).filter(|_| arg < task.args);
        read.is_some_and(|read| !std::mem::replace(read, true))
    }

    fn all_read(&self, task: MetTask) -> bool {
        let read = self.read.get(task.first..task.first + task.args);
        read.is_some_and(|read| read.iter().all(|read| *read))
    }
}

/// The reads of one value by one lane.
struct ReadKey {
    place: (LaneId, ValueId),
    reads: u32,
    meets: bool,
}

struct Form<'a> {
    plan: &'a Plan,
    places: IdMap<ActorId, Address>,
    /// Actors whose methods need not keep bind order.
    commuting: IdSet<ActorId>,
    /// The reads of each value by each lane, counted from the graph, and whether any of them asks for a rendezvous;
    /// sorted.
    reads: Vec<ReadKey>,
}

/// Checks the form of a plan; the error names the first mistake, in words.
pub(super) fn check(plan: &Plan) -> Result<(), String> {
    let form = Form::new(plan);
    let none = |value: &ValueIr| value.buffer.slots == Some(0);
    if plan.settings.slots == 0 || plan.ir.values.iter().any(none) {
        return Err("channels without slots".to_owned());
    }
    if plan.lanes.first().map(|lane| lane.address) != Some(Address::DRIVER) {
        return Err("the driver's lane is not the first".to_owned());
    }
    let mut lanes: IdSet<LaneId> = IdSet::new();
    if let Some(twice) = plan.lanes.iter().find(|lane| !lanes.insert(lane.address.lane)) {
        return Err(format!("lane {} has two programs", twice.address.lane.0));
    }
    for (index, channel) in plan.channels.iter().enumerate() {
        if channel.id.0 as usize != index {
            return Err(format!("channel {} stands at place {index}", channel.id.0));
        }
        form.writer(channel)?;
    }
    distinct(plan)?;
    mirrors(plan)?;
    let mut met = Met::nothing_of(&plan.ir.tasks);
    let mut read = 0;
    for lane in &plan.lanes {
        form.steps(lane, &mut met)?;
        read += form.values(lane)?;
    }
    if read != form.reads.len() {
        return Err("a value that some lane needs does not reach it".to_owned());
    }
    readers(plan)?;
    match met.tasks.iter().zip(&plan.ir.tasks).find(|(met, _)| !met.written) {
        Some((_, task)) => Err(format!("no lane finishes `{}`", task.label)),
        None => Ok(()),
    }
}

impl<'a> Form<'a> {
    fn new(plan: &'a Plan) -> Self {
        let places = plan.ir.places();
        let inner = plan.ir.tasks.iter().flat_map(|task| {
            let lane = places.get(&task.actor).map(|place| place.lane);
            let read = move |(arg, value)| Some(((lane?, value), task.meets_at(arg)));
            GraphIr::reads(task).filter_map(read)
        });
        let outputs = plan
            .ir
            .outputs
            .iter()
            .map(|value| ((LaneId::DRIVER, *value), false));
        let mut single: Vec<_> = inner.chain(outputs).collect();
        single.sort_unstable();
        let merged = |same: &[((LaneId, ValueId), bool)]| {
            let (place, _) = *same.first()?;
            let meets = same.iter().any(|(_, meets)| *meets);
            let reads = same.len() as u32;
            Some(ReadKey { place, reads, meets })
        };
        let reads = single
            .chunk_by(|one, next| one.0 == next.0)
            .filter_map(merged)
            .collect();
        Form {
            plan,
            places,
            commuting: plan
                .ir
                .actors
                .iter()
                .filter(|it| it.commutes)
                .map(|it| it.id)
                .collect(),
            reads,
        }
    }

    /// Checks that the channel is written where its value is made.
    fn writer(&self, channel: &ChannelPlan) -> Result<(), String> {
        let value = self.plan.ir.value(channel.value);
        let writer = match value.map(|value| value.origin) {
            Some(Origin::Input(_)) => Some(Writer::Submit),
            Some(Origin::Task(task)) => {
                let task = self.plan.ir.task(task);
                let place = task.and_then(|task| self.places.get(&task.actor));
                place.copied().map(Writer::Lane)
            }
            None => None,
        };
        if writer == Some(channel.writer) {
            return Ok(());
        }
        Err(format!(
            "channel {} is not written where its value is made",
            channel.id.0
        ))
    }

    /// Checks that every task's READs, COMPUTE and WRITE stand on its actor's lane in this order, once each, and that
    /// an actor's COMPUTEs stand in bind order (TASK-04, GRAPH-04).
    fn steps(&self, lane: &LaneProgram, met: &mut Met) -> Result<(), String> {
        let mut last: IdMap<ActorId, BindIndex> = IdMap::new();
        for step in &lane.steps {
            let index = step.task.index();
            let (Some(task), Some(mut own)) = (self.plan.ir.task(step.task), met.tasks.get(index).copied())
            else {
                return Err(format!(
                    "lane {} has an operation of an unknown task",
                    lane.address.lane.0
                ));
            };
            let misplaced = || {
                format!(
                    "{} of `{}` is out of place on lane {}",
                    step.kind, task.label, lane.address.lane.0
                )
            };
            if self.places.get(&task.actor) != Some(&lane.address) {
                return Err(misplaced());
            }
            let fits = match step.kind {
                OpKind::Read { arg } => met.read(own, arg),
                OpKind::Compute | OpKind::Collective => {
                    let compute = step.kind == OpKind::Compute;
                    let in_turn = !compute || self.commuting.contains(&task.actor) || {
                        let before = last.insert(task.actor, task.bind_index);
                        before.is_none_or(|before| before < task.bind_index)
                    };
                    in_turn
                        && compute == task.collective.is_none()
                        && met.all_read(own)
                        && !std::mem::replace(&mut own.computed, true)
                }
                OpKind::Write => own.computed && !std::mem::replace(&mut own.written, true),
            };
            if !fits {
                return Err(misplaced());
            }
            if let Some(place) = met.tasks.get_mut(index) {
                *place = own;
            }
        }
        Ok(())
    }

    /// Checks that every value of the lane arrives by a channel that fits, and is read as often as the graph says.
    /// Returns the number of values.
    fn values(&self, lane: &LaneProgram) -> Result<usize, String> {
        let mut values: Vec<ValueId> = lane.values.iter().map(|value| value.value).collect();
        values.sort_unstable();
        if let Some([twice, _]) = values.array_windows().find(|[one, next]| one == next) {
            return Err(format!(
                "lane {} has `{}` twice",
                lane.address.lane.0,
                self.plan.ir.value_name(*twice)
            ));
        }
        for value in &lane.values {
            let name = || self.plan.ir.value_name(value.value);
            let place = (lane.address.lane, value.value);
            let asked = self.reads.binary_search_by_key(&place, |read| read.place).ok();
            let asked = asked.and_then(|at| self.reads.get(at));
            if asked.map(|read| read.reads) != Some(value.reads) {
                return Err(format!(
                    "lane {} does not read `{}` {} times",
                    lane.address.lane.0,
                    name(),
                    value.reads
                ));
            }
            let channel = self.plan.channels.get(value.channel.0 as usize);
            let across = channel.is_some_and(|channel| match channel.writer {
                Writer::Lane(writer) => writer != lane.address,
                Writer::Submit => false,
            });
            if value.meets != (across && asked.is_some_and(|read| read.meets)) {
                return Err(format!(
                    "lane {} and the writer of `{}` do not agree whether they meet",
                    lane.address.lane.0,
                    name()
                ));
            }
            if !channel.is_some_and(|channel| fits(lane, value, channel, self.plan)) {
                return Err(format!(
                    "the channel of `{}` does not lead to lane {}",
                    name(),
                    lane.address.lane.0
                ));
            }
        }
        Ok(lane.values.len())
    }
}
