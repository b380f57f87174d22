//! A graph as it was bound: actors, tasks, values.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::Location;

use selvedge_core::{ActorId, LaneId, ProcessId};
use serde::{Deserialize, Serialize};

use super::{CollectiveIr, OpKind, Operation};

/// Index of a task in [`GraphIr::tasks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskId(pub u32);

/// Index of a value in [`GraphIr::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ValueId(pub u32);

/// A collective operation of a graph: the tasks that carry the number are its ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CollectiveId(pub u32);

/// Position of a task among all binds of its actor in this graph. Binds of other graphs do not count: equal graphs have equal
/// plans, whatever else their actors have been bound into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BindIndex(pub u32);

impl TaskId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl ValueId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A line of the user's program.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SourceLocation {
    /// The file, as the compiler saw it.
    pub file: Cow<'static, str>,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

impl From<&'static Location<'static>> for SourceLocation {
    fn from(location: &'static Location<'static>) -> Self {
        SourceLocation {
            file: Cow::Borrowed(location.file()),
            line: location.line(),
            column: location.column(),
        }
    }
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// Who makes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Origin {
    /// Leaf number n of the graph's input.
    Input(u32),
    /// The result of a task.
    Task(TaskId),
}

/// A value: what one writer makes and any number of tasks and outputs read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueIr {
    /// Who makes it.
    pub origin: Origin,
    /// Which part of a tuple; `None` for the whole.
    pub part: Option<u16>,
    /// Name of its type, for people.
    pub type_name: Cow<'static, str>,
    /// It says only that its maker is done: a unit, whatever the maker's result. Its readers are ordered after the
    /// maker and get nothing.
    pub signal: bool,
    /// The tensors in it.
    #[serde(default)]
    pub tensors: TensorsIr,
    /// What was asked for of the channels that carry it.
    #[serde(default)]
    pub buffer: BufferIr,
}

/// What a user asks for of the channels of one value; what is not said is that of the graph's options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferIr {
    /// Messages that may be under way in each.
    pub slots: Option<u32>,
    /// Bytes of a slot before a channel in shared memory grows.
    pub slot_bytes: Option<u64>,
}

/// What is known of the tensors in a value, and what the user has said of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorsIr {
    /// Its type is known to carry tensors of a device.
    pub carried: bool,
    /// The device that they lie on, as the writer's process counts devices; where nothing is said, the maker's.
    pub device: Option<u32>,
    /// All values have tensors of the layouts of the first, in memory and on devices.
    pub static_shape: bool,
}

/// An actor of the graph and where it lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActorIr {
    /// Its id.
    pub id: ActorId,
    /// Its name.
    pub name: String,
    /// The name under which its type is registered.
    pub type_name: String,
    /// The lane that runs its tasks.
    pub lane: LaneId,
    /// The lane it was spawned on, which lends it where another one runs its tasks.
    pub home: LaneId,
    /// Its process.
    pub process: ProcessId,
    /// `inline`, `thread`, or `process 4121`.
    pub placement: String,
    /// The device that its tensors lie on, as its process counts devices, if that was declared.
    #[serde(default)]
    pub device: Option<u32>,
    /// The core that its lane keeps to, if one was named.
    #[serde(default)]
    pub core: Option<u32>,
    /// Its methods may run in any order within an execution, so bind order does not hold them.
    pub commutes: bool,
}

/// An argument of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ArgIr {
    /// A value of the graph.
    Value(ValueId),
    /// The same in every execution, encoded.
    Constant(Vec<u8>),
}

/// How the arguments of a task make up the parameters of its method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Group {
    /// The next argument.
    One,
    /// The next arguments as one list, whose elements may be lists.
    List(Vec<Group>),
}

/// One bind of one method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskIr {
    /// Whose method.
    pub actor: ActorId,
    /// Index of the method in the actor's entry.
    pub method: u16,
    /// Its name.
    pub method_name: Cow<'static, str>,
    /// `actor.method`, with `#2` for the second bind of the same method, or the name it was given.
    pub label: String,
    /// Its arguments, in order, those of lists one by one, then the signals it waits for.
    pub args: Vec<ArgIr>,
    /// By parameter; empty where every argument is a parameter.
    pub groups: Vec<Group>,
    /// Positions of the arguments whose transfer is a rendezvous, ascending: writer and reader both take part in it.
    pub meets: Vec<u32>,
    /// It is one rank's part of this collective: all parts are one event, which is no part of the actor's chain of
    /// COMPUTEs.
    pub collective: Option<CollectiveId>,
    /// How long its work takes, in nanoseconds, measured or declared; orders are made for it.
    pub duration_ns: Option<u64>,
    /// The line where it was bound.
    pub bound_at: SourceLocation,
    /// Position among all binds of the actor in this graph.
    pub bind_index: BindIndex,
}

impl TaskIr {
    /// Whether the transfer of the argument at this position is a rendezvous.
    pub(crate) fn meets_at(&self, position: u32) -> bool {
        self.meets.binary_search(&position).is_ok()
    }
}

/// A graph as it was bound. Tasks stand in the order of their binds, so it has no cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphIr {
    /// Its name.
    pub name: String,
    /// Its actors, in the order of their first binds.
    pub actors: Vec<ActorIr>,
    /// Its tasks.
    pub tasks: Vec<TaskIr>,
    /// Its collective operations, by id.
    #[serde(default)]
    pub collectives: Vec<CollectiveIr>,
    /// Its values.
    pub values: Vec<ValueIr>,
    /// The whole value of each leaf of its input.
    pub inputs: Vec<ValueId>,
    /// The value of each leaf of its output; repeats are allowed.
    pub outputs: Vec<ValueId>,
    /// The line where it was compiled.
    pub compiled_at: SourceLocation,
}

impl GraphIr {
    /// The task of an id.
    pub fn task(&self, id: TaskId) -> Option<&TaskIr> {
        self.tasks.get(id.index())
    }

    /// The value of an id.
    pub fn value(&self, id: ValueId) -> Option<&ValueIr> {
        self.values.get(id.index())
    }

    /// The collective of an id.
    pub fn collective(&self, id: CollectiveId) -> Option<&CollectiveIr> {
        self.collectives.get(id.0 as usize)
    }

    /// The actors that are the ranks of a collective.
    pub(crate) fn ranks(&self, collective: &CollectiveIr) -> Vec<ActorId> {
        let actor = |task: &TaskId| self.task(*task).map(|task| task.actor);
        collective.tasks.iter().filter_map(actor).collect()
    }

    /// The actor of an id.
    pub fn actor(&self, id: ActorId) -> Option<&ActorIr> {
        self.actors.iter().find(|actor| actor.id == id)
    }

    /// The values a task reads, one per argument that is an edge, with the argument's position.
    pub fn reads(task: &TaskIr) -> impl Iterator<Item = (u32, ValueId)> {
        task.args
            .iter()
            .enumerate()
            .filter_map(|(position, arg)| match arg {
                ArgIr::Value(value) => Some((position as u32, *value)),
                ArgIr::Constant(_) => None,
            })
    }

    /// The duration of every task is measured or declared: times of the plan mean something.
    pub fn is_measured(&self) -> bool {
        self.tasks.iter().all(|task| task.duration_ns.is_some())
    }

    /// What people call a task; `?` for one that is not there.
    pub fn label(&self, id: TaskId) -> &str {
        self.task(id).map_or("?", |task| task.label.as_str())
    }

    /// The task that makes a value; `None` for an input.
    pub fn maker(&self, id: ValueId) -> Option<TaskId> {
        match self.value(id)?.origin {
            Origin::Task(task) => Some(task),
            Origin::Input(_) => None,
        }
    }

    /// Slots of the channels that carry a value: those asked for, else `slots`.
    pub(crate) fn slots_of(&self, id: ValueId, slots: u32) -> u32 {
        let asked = self.value(id).and_then(|value| value.buffer.slots);
        asked.unwrap_or(slots)
    }

    /// The device on which the tensors in a value are made, as far as anybody has said.
    pub fn device_of(&self, id: ValueId) -> Option<u32> {
        let tensors = self.value(id)?.tensors;
        let maker = || self.actor(self.task(self.maker(id)?)?.actor)?.device;
        let said = tensors.device.or_else(maker);
        said.filter(|_| tensors.carried)
    }

    /// What a READ brings; `None` for other operations, and for what is constant.
    pub fn read_by(&self, step: Operation) -> Option<ValueId> {
        let OpKind::Read { arg } = step.kind else {
            return None;
        };
        match self.task(step.task)?.args.get(arg as usize)? {
            ArgIr::Value(value) => Some(*value),
            ArgIr::Constant(_) => None,
        }
    }

    /// The actors whose tasks a lane runs.
    pub(crate) fn actors_on(&self, lane: LaneId) -> impl Iterator<Item = &ActorIr> {
        self.actors.iter().filter(move |actor| actor.lane == lane)
    }

    /// The core that a lane keeps to, if one of its actors has named one.
    pub(crate) fn core_of(&self, lane: LaneId) -> Option<u32> {
        self.actors_on(lane).find_map(|actor| actor.core)
    }

    /// Where a lane is, for people.
    pub(crate) fn place_of(&self, lane: LaneId) -> String {
        let actor = self.actors_on(lane).next();
        let place = actor.map_or("driver", |actor| actor.placement.as_str());
        match self.core_of(lane) {
            Some(core) => format!("{place}, core {core}"),
            None => place.to_owned(),
        }
    }

    /// Where each actor lives, by id.
    pub(crate) fn places(&self) -> BTreeMap<ActorId, (ProcessId, LaneId)> {
        let place = |actor: &ActorIr| (actor.id, (actor.process, actor.lane));
        self.actors.iter().map(place).collect()
    }

    /// What people call a value.
    pub fn value_name(&self, id: ValueId) -> String {
        let Some(value) = self.value(id) else {
            return format!("value {}", id.0);
        };
        let whole = match value.origin {
            Origin::Input(_) if value.signal && self.inputs.contains(&id) => "start".to_owned(),
            Origin::Input(leaf) if value.signal => format!("arrival of input {leaf}"),
            Origin::Input(leaf) => format!("input {leaf}"),
            Origin::Task(task) => {
                let label = self
                    .task(task)
                    .map_or_else(|| format!("task {}", task.0), |task| task.label.clone());
                if value.signal {
                    format!("end of {label}")
                } else {
                    label
                }
            }
        };
        value.part.map_or(whole.clone(), |part| format!("{whole}.{part}"))
    }
}
