//! A graph as it was bound: actors, tasks, values.

use std::fmt;
use std::panic::Location;

use selvedge_core::{ActorId, LaneId, ProcessId};
use serde::{Deserialize, Serialize};

/// Index of a task in [`GraphIr::tasks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskId(pub u32);

/// Index of a value in [`GraphIr::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ValueId(pub u32);

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
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

impl From<&Location<'_>> for SourceLocation {
    fn from(location: &Location<'_>) -> Self {
        SourceLocation {
            file: location.file().to_owned(),
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    pub type_name: String,
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
    /// Its lane.
    pub lane: LaneId,
    /// Its process.
    pub process: ProcessId,
    /// `inline`, `thread`, or `process 4121`.
    pub placement: String,
}

/// An argument of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ArgIr {
    /// A value of the graph.
    Value(ValueId),
    /// The same in every execution, encoded.
    Constant(Vec<u8>),
}

/// One bind of one method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskIr {
    /// Whose method.
    pub actor: ActorId,
    /// Index of the method in the actor's entry.
    pub method: u16,
    /// Its name.
    pub method_name: String,
    /// `actor.method`, with `#2` for the second bind of the same method, or the name it was given.
    pub label: String,
    /// Its arguments, in order.
    pub args: Vec<ArgIr>,
    /// The line where it was bound.
    pub bound_at: SourceLocation,
    /// Position among all binds of the actor in this graph.
    pub bind_index: u32,
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

    /// The actor of an id.
    pub fn actor(&self, id: ActorId) -> Option<&ActorIr> {
        self.actors.iter().find(|actor| actor.id == id)
    }

    /// The values a task reads, one per argument that is an edge, with the argument's position.
    pub fn reads(task: &TaskIr) -> impl Iterator<Item = (u16, ValueId)> {
        task.args
            .iter()
            .enumerate()
            .filter_map(|(position, arg)| match arg {
                ArgIr::Value(value) => Some((position as u16, *value)),
                ArgIr::Constant(_) => None,
            })
    }

    /// What people call a value.
    pub fn value_name(&self, id: ValueId) -> String {
        let Some(value) = self.value(id) else {
            return format!("value {}", id.0);
        };
        let whole = match value.origin {
            Origin::Input(leaf) => format!("input {leaf}"),
            Origin::Task(task) => self
                .task(task)
                .map_or_else(|| format!("task {}", task.0), |task| task.label.clone()),
        };
        value.part.map_or(whole.clone(), |part| format!("{whole}.{part}"))
    }
}
