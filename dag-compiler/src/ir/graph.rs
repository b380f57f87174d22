//! The graph as it was bound: actors, tasks and values.

use std::borrow::Cow;
use std::fmt;
use std::panic::Location;

use selvedge_core::{ActorId, Address, IdKey, IdMap, LaneId};
use serde::{Deserialize, Serialize};

use super::{CollectiveIr, OpKind, Operation};

/// Index of a task in [`GraphIr::tasks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskId(pub u32);

/// Index of a value in [`GraphIr::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ValueId(pub u32);

/// Index of a collective operation in [`GraphIr::collectives`]. The tasks with this index are its ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CollectiveId(pub u32);

/// Position of a task among all binds of its actor in this graph. Binds of other graphs do not count, so equal graphs
/// have equal plans whatever other graphs use their actors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BindIndex(pub u32);

selvedge_core::id_key!(TaskId as u32: |task| task.0);
selvedge_core::id_key!(ValueId as u32: |value| value.0);
selvedge_core::id_key!(CollectiveId as u32: |collective| collective.0);
selvedge_core::id_key!(crate::ir::ChannelId as u32: |channel| channel.0);

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

/// A position in the user's program.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SourceLocation {
    /// The path of the file, as the Rust compiler reports it.
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

/// The maker of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Origin {
    /// Leaf number n of the graph's input.
    Input(u32),
    /// The result of a task.
    Task(TaskId),
}

impl IdKey for Origin {
    type Number = u128;

    const BITS: u32 = 1 + u32::BITS;

    fn number(self) -> u128 {
        match self {
            Origin::Input(leaf) => leaf.into(),
            Origin::Task(task) => 1 << u32::BITS | task.number(),
        }
    }
}

/// A value. One writer makes it; any number of tasks and outputs read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueIr {
    /// The maker of the value.
    pub origin: Origin,
    /// The number of the part if the value is a part of a tuple; `None` for the whole.
    pub part: Option<u16>,
    /// The name of the value's type, for display.
    pub type_name: Cow<'static, str>,
    /// True if the value only signals that its maker is done. The value is then a unit, whatever the maker's result is.
    /// Its readers run after the maker and receive no data.
    pub signal: bool,
    /// The known traits of the value's type.
    #[serde(default)]
    pub traits: TraitsIr,
    /// The properties of the tensors in the value.
    #[serde(default)]
    pub tensors: TensorsIr,
    /// The settings that were asked for in the channels that carry the value.
    #[serde(default)]
    pub buffer: BufferIr,
}

/// The settings that a user asks for in the channels of one value. The graph's options replace a setting that is
/// `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferIr {
    /// The number of slots of each channel, which is the number of messages that may be in flight.
    pub slots: Option<u32>,
    /// Bytes of a slot before a channel in shared memory grows.
    pub slot_bytes: Option<u64>,
}

/// The known traits of a value's type. By default a type may do everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraitsIr {
    /// True if the value may have several readers: its type is `Clone`.
    pub clone: bool,
    /// True if the value may have readers on several lanes: its type is `Clone` and `Sync`.
    pub shared: bool,
    /// True if the value may cross processes: its type is `Wire`.
    pub wire: bool,
    /// True if the value may hold references beside device tensors, which cannot cross processes in one message.
    #[serde(default)]
    pub mixed: bool,
}

impl Default for TraitsIr {
    fn default() -> Self {
        TraitsIr {
            clone: true,
            shared: true,
            wire: true,
            mixed: false,
        }
    }
}

/// The properties of the tensors in a value: known from its type, or declared by the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorsIr {
    /// True if the value's type is known to carry device tensors.
    pub carried: bool,
    /// The device on which the tensors lie, as the writer's process numbers devices. `None` for the device of the actor
    /// that makes the value.
    pub device: Option<u32>,
    /// True if the tensors of every value have the layouts of the first value's tensors, in host memory and on devices.
    pub static_shape: bool,
}

/// An actor of the graph and the place where it lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActorIr {
    /// The actor's id.
    pub id: ActorId,
    /// The actor's name.
    pub name: String,
    /// The name under which the actor's type is registered.
    pub type_name: String,
    /// The lane that runs the actor's tasks.
    pub lane: LaneId,
    /// The place where the actor was spawned. The lane there lends the actor if another lane runs its tasks.
    pub home: Address,
    /// The placement as text: `inline`, `thread`, or `process with pid 4121`.
    pub placement: String,
    /// The device of the actor's tensors, as its process numbers devices, if a device was declared.
    #[serde(default)]
    pub device: Option<u32>,
    /// The core to which the actor's lane is pinned, if a core was named.
    #[serde(default)]
    pub core: Option<u32>,
    /// The number of the actor's async methods that may be in flight at a time; 1 for an inline actor.
    #[serde(default)]
    pub concurrency: u32,
    /// True if the actor must stay on the lane where it was spawned, because its type is not `Send`.
    #[serde(default)]
    pub pinned: bool,
    /// True if the actor's methods may run in any order within an execution. Bind order does not constrain them then.
    pub commutes: bool,
}

/// An argument of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ArgIr {
    /// A value of the graph.
    Value(ValueId),
    /// An encoded constant, which is the same in every execution. Empty if the task runs in the driver's process, which
    /// has the constant itself.
    Constant(Vec<u8>),
}

/// The grouping of a task's arguments into the parameters of its method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ArgGroup {
    /// The next argument.
    One,
    /// The next arguments as one list. An element of the list may be a list.
    List(Vec<ArgGroup>),
}

/// A task: one bind of one method, or one rank's part of a collective.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskIr {
    /// The actor that runs the task.
    pub actor: ActorId,
    /// Index of the method in the actor's entry or in the extension; `u16::MAX` for a collective.
    pub method: u16,
    /// The key of the extension of the actor's type that has the method. `None` for a method of the actor's entry.
    #[serde(default)]
    pub extension: Option<String>,
    /// The name of the method or of the collective.
    pub method_name: Cow<'static, str>,
    /// The label: `actor.method`, with `#2` for the second bind of the same method, or the name that the user gave.
    pub label: String,
    /// The arguments in order, with the members of lists one by one, then the signals that the task waits for.
    pub args: Vec<ArgIr>,
    /// The grouping of the arguments, by parameter. Empty if every argument is one parameter.
    pub groups: Vec<ArgGroup>,
    /// Positions of the arguments whose transfer is a rendezvous, in ascending order. Writer and reader both take part
    /// in a rendezvous.
    pub meets: Vec<u32>,
    /// The collective of which the task is one rank's part. All parts are one event. A part does not belong to the
    /// actor's chain of COMPUTEs.
    pub collective: Option<CollectiveId>,
    /// The duration of the task's work in nanoseconds, measured or declared. The compiler chooses orders by it.
    pub duration_ns: Option<u64>,
    /// The line where the task was bound.
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

/// A bound graph. Tasks are stored in the order of their binds, so the graph has no cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphIr {
    /// The graph's name.
    pub name: String,
    /// The actors, in the order of their first binds.
    pub actors: Vec<ActorIr>,
    /// The tasks, by id.
    pub tasks: Vec<TaskIr>,
    /// The collective operations, by id.
    #[serde(default)]
    pub collectives: Vec<CollectiveIr>,
    /// The values, by id.
    pub values: Vec<ValueIr>,
    /// The whole value of each leaf of the graph's input.
    pub inputs: Vec<ValueId>,
    /// The value of each leaf of the graph's output. A value may occur more than once.
    pub outputs: Vec<ValueId>,
    /// The line where the graph was compiled.
    pub compiled_at: SourceLocation,
}

impl GraphIr {
    /// Returns the task with this id.
    pub fn task(&self, id: TaskId) -> Option<&TaskIr> {
        self.tasks.get(id.index())
    }

    /// Returns the value with this id.
    pub fn value(&self, id: ValueId) -> Option<&ValueIr> {
        self.values.get(id.index())
    }

    /// Returns the collective with this id.
    pub fn collective(&self, id: CollectiveId) -> Option<&CollectiveIr> {
        self.collectives.get(id.0 as usize)
    }

    /// Returns the actors of a collective, in the order of ranks.
    pub(crate) fn ranks(&self, collective: &CollectiveIr) -> Vec<ActorId> {
        let actor = |task: &TaskId| self.task(*task).map(|task| task.actor);
        collective.tasks.iter().filter_map(actor).collect()
    }

    /// Returns the actor with this id.
    pub fn actor(&self, id: ActorId) -> Option<&ActorIr> {
        self.actors.iter().find(|actor| actor.id == id)
    }

    /// Returns all actors by their ids, for many look-ups.
    pub(crate) fn actors_by_id(&self) -> IdMap<ActorId, &ActorIr> {
        self.actors.iter().map(|actor| (actor.id, actor)).collect()
    }

    /// Returns the values that a task reads: one for each argument that is an edge, with the argument's position.
    pub fn reads(task: &TaskIr) -> impl Iterator<Item = (u32, ValueId)> {
        task.args
            .iter()
            .enumerate()
            .filter_map(|(position, arg)| match arg {
                ArgIr::Value(value) => Some((position as u32, *value)),
                ArgIr::Constant(_) => None,
            })
    }

    /// True if the duration of every task is measured or declared. Only then are the times of the plan meaningful.
    pub fn is_measured(&self) -> bool {
        self.tasks.iter().all(|task| task.duration_ns.is_some())
    }

    /// Returns the label of a task; `?` if there is no such task.
    pub fn label(&self, id: TaskId) -> &str {
        self.task(id).map_or("?", |task| task.label.as_str())
    }

    /// Returns the task that makes a value; `None` for an input.
    pub fn maker(&self, id: ValueId) -> Option<TaskId> {
        match self.value(id)?.origin {
            Origin::Task(task) => Some(task),
            Origin::Input(_) => None,
        }
    }

    /// Returns the number of slots of the channels that carry a value: the number that was asked for, else `slots`.
    pub(crate) fn slots_of(&self, id: ValueId, slots: u32) -> u32 {
        let asked = self.value(id).and_then(|value| value.buffer.slots);
        asked.unwrap_or(slots)
    }

    /// Returns the device on which the tensors in a value are made, if it was declared for the value or for its actor.
    pub fn device_of(&self, id: ValueId) -> Option<u32> {
        let tensors = self.value(id)?.tensors;
        let maker = || self.actor(self.task(self.maker(id)?)?.actor)?.device;
        let said = tensors.device.or_else(maker);
        said.filter(|_| tensors.carried)
    }

    /// Returns the value that a READ receives; `None` for other operations and for constants.
    pub fn read_by(&self, step: Operation) -> Option<ValueId> {
        let OpKind::Read { arg } = step.kind else {
            return None;
        };
        match self.task(step.task)?.args.get(arg as usize)? {
            ArgIr::Value(value) => Some(*value),
            ArgIr::Constant(_) => None,
        }
    }

    /// Returns the actors whose tasks a lane runs.
    pub(crate) fn actors_on(&self, lane: LaneId) -> impl Iterator<Item = &ActorIr> {
        self.actors.iter().filter(move |actor| actor.lane == lane)
    }

    /// Returns the core to which a lane is pinned, if one of its actors names a core.
    pub(crate) fn core_of(&self, lane: LaneId) -> Option<u32> {
        self.actors_on(lane).find_map(|actor| actor.core)
    }

    /// Whether a lane runs an actor that must stay there.
    pub(crate) fn is_pinned(&self, lane: LaneId) -> bool {
        self.actors_on(lane).any(|actor| actor.pinned)
    }

    /// Returns the place of a lane as text, for display.
    pub(crate) fn place_of(&self, lane: LaneId) -> String {
        let actor = self.actors_on(lane).next();
        let place = actor.map_or("driver", |actor| actor.placement.as_str());
        match self.core_of(lane) {
            Some(core) => format!("{place}, core {core}"),
            None => place.to_owned(),
        }
    }

    /// Returns the place where each actor runs in this graph, by actor id.
    pub(crate) fn places(&self) -> IdMap<ActorId, Address> {
        let place = |actor: &ActorIr| {
            let lane = actor.lane;
            (actor.id, Address { lane, ..actor.home })
        };
        self.actors.iter().map(place).collect()
    }

    /// Whether a value is a leaf of the graph's input, and not a part or a signal of one.
    pub(crate) fn is_input(&self, id: ValueId) -> bool {
        let leaf = match self.value(id).map(|value| value.origin) {
            Some(Origin::Input(leaf)) => self.inputs.get(leaf as usize),
            _ => None,
        };
        leaf == Some(&id)
    }

    /// Returns the name of a value, for display.
    pub fn value_name(&self, id: ValueId) -> String {
        let Some(value) = self.value(id) else {
            return format!("value {}", id.0);
        };
        let whole = match value.origin {
            Origin::Input(_) if value.signal && self.is_input(id) => "start".to_owned(),
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
