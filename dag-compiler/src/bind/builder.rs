//! The graph under construction: its actors, tasks and values, and the mistakes found so far.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use selvedge_channels::PayloadType;
use selvedge_core::{ActorId, ActorRef, FunctionActor, IdMap, IdSet, Runtime};

use super::constant::Constant;
use super::ports::Splitter;
use super::transport::Transport;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{
    ArgIr, BindIndex, BufferIr, CollectiveIr, GraphIr, Origin, SourceLocation, TaskId, TaskIr, TensorsIr,
    TraitsIr, ValueId, ValueIr,
};

/// Returns `name` if no other object of its kind has that name, else `name` with a number. `taken` maps each name to
/// the last number that was given with it.
pub(super) fn numbered(taken: &mut BTreeMap<String, u32>, name: String) -> String {
    let last = taken.get(&name).copied();
    let Some(last) = last else {
        taken.insert(name.clone(), 1);
        return name;
    };
    let mut others = (last + 1..).map(|number| (number, format!("{name}#{number}")));
    let (number, other) = others
        .find(|(_, other)| !taken.contains_key(other))
        .unwrap_or_default();
    taken.insert(name, number);
    taken.insert(other.clone(), 1);
    other
}

/// A graph under construction.
#[derive(Default)]
pub(crate) struct Builder {
    /// The runtime on which the graph will run; `None` once the graph is bound.
    pub(super) runtime: Option<Runtime>,
    /// The actors that stand for functions.
    pub(super) functions: Vec<FunctionActor>,
    pub(super) actors: Vec<ActorRef>,
    /// The position of each actor in `actors`.
    pub(super) places: IdMap<ActorId, usize>,
    /// The names of actors in messages. If several actors have one name, all but the first get a number.
    pub(super) names: IdMap<ActorId, String>,
    /// The names of actors that are taken, each with the last number that was given with it.
    pub(super) taken: BTreeMap<String, u32>,
    pub(super) binds: IdMap<ActorId, BindIndex>,
    /// The labels of tasks that are taken, each with the last number that was given with it.
    pub(super) labels: BTreeMap<String, u32>,
    pub(super) tasks: Vec<TaskIr>,
    pub(super) collectives: Vec<CollectiveIr>,
    pub(super) values: Vec<ValueIr>,
    pub(super) payloads: Vec<PayloadType>,
    pub(super) inputs: Vec<ValueId>,
    pub(super) splitters: IdMap<ValueId, Splitter>,
    pub(super) parts: IdMap<(ValueId, u16), ValueId>,
    /// The signal of each task or input of the graph: a value that says that its maker is done.
    pub(super) signals: IdMap<Origin, ValueId>,
    /// The signals that each task waits for.
    pub(super) ordered: IdSet<(TaskId, ValueId)>,
    /// A cache for `order`: the task that was last ordered after an input of the graph, and the origins of its
    /// arguments.
    pub(super) inputs_read: (Option<TaskId>, IdSet<Origin>),
    /// The constants among the arguments, by task and position of the argument.
    pub(super) constants: IdMap<(TaskId, u32), Constant>,
    /// The transports that edges ask for, by task and position of the argument.
    pub(super) asked: IdMap<(TaskId, u32), Transport>,
    pub(super) mistakes: Vec<Diagnostic>,
}

impl Builder {
    /// A graph that will run on `runtime`.
    pub(super) fn on(runtime: &Runtime) -> Self {
        Builder {
            runtime: Some(runtime.clone()),
            ..Builder::default()
        }
    }

    fn value(&mut self, origin: Origin, part: Option<u16>, payload: PayloadType) -> ValueId {
        let id = ValueId(self.values.len() as u32);
        self.values.push(ValueIr {
            origin,
            part,
            type_name: Cow::Borrowed(payload.name()),
            signal: false,
            traits: TraitsIr::default(),
            tensors: TensorsIr::default(),
            buffer: BufferIr::default(),
        });
        self.payloads.push(payload);
        id
    }

    /// Adds a leaf to the graph's input.
    pub(super) fn input(&mut self, payload: PayloadType) -> ValueId {
        let id = self.value(Origin::Input(self.inputs.len() as u32), None, payload);
        self.inputs.push(id);
        id
    }

    /// Returns the value of a part of a tuple. Splitting the same value again returns the same part. A mistake for a
    /// part of a part, and for a tuple that its task hands over as a whole.
    pub(super) fn part(
        &mut self,
        whole: ValueId,
        index: u16,
        payload: PayloadType,
        splitter: Splitter,
    ) -> Result<ValueId, (Code, String)> {
        if let Some(known) = self.parts.get(&(whole, index)) {
            return Ok(*known);
        }
        let value = self.values.get(whole.index());
        let Some(origin) = value
            .filter(|value| value.part.is_none())
            .map(|value| value.origin)
        else {
            let message = "a part of a tuple is split again, but channels carry the parts of one tuple only";
            return Err((Code::NestedSplit, message.to_owned()));
        };
        if let Origin::Task(task) = origin
            && let Some(task) = self.tasks.get(task.index())
            && self.parts_of(task) <= usize::from(index)
        {
            let message = format!("`{}` hands over its tuple as a whole", task.label);
            return Err((Code::WholeTuple, message));
        }
        let id = self.value(origin, Some(index), payload);
        self.splitters.insert(whole, splitter);
        self.parts.insert((whole, index), id);
        Ok(id)
    }

    /// Returns the number of parts that a task hands over.
    fn parts_of(&self, task: &TaskIr) -> usize {
        self.method(task).map_or(0, |method| (method.parts)().len())
    }

    fn signal(&mut self, origin: Origin) -> ValueId {
        let id = self.value(origin, None, PayloadType::of::<()>());
        if let Some(value) = self.values.get_mut(id.index()) {
            value.signal = true;
        }
        id
    }

    /// Makes the task of `later` wait until the maker of `before` is done. A mistake if the maker is bound later, or
    /// runs together with the task.
    pub(super) fn order(&mut self, later: ValueId, before: ValueId, location: &SourceLocation) {
        let (Some(Origin::Task(task)), Some(before)) = (self.origin(later), self.origin(before)) else {
            return;
        };
        match before {
            Origin::Task(before) if before >= task => {
                let message = "a task is ordered after one that is bound later, or after itself";
                return self.mistake(Code::OrderedLater, message, location);
            }
            Origin::Task(before) if self.are_ranks_of_one(task, before) => {
                let message = "a rank of a collective is ordered after another one, but they run together";
                return self.mistake(Code::OrderedLater, message, location);
            }
            // The task reads this input, so the input has arrived before the task runs.
            Origin::Input(_) if self.reads_input(task, before) => return,
            _ => {}
        }
        let signal = match self.signals.get(&before) {
            Some(signal) => *signal,
            None => {
                let signal = self.signal(before);
                self.signals.insert(before, signal);
                signal
            }
        };
        if self.ordered.insert((task, signal))
            && let Some(task) = self.tasks.get_mut(task.index())
        {
            task.args.push(ArgIr::Value(signal));
        }
    }

    /// Whether both tasks are ranks of one collective.
    fn are_ranks_of_one(&self, one: TaskId, other: TaskId) -> bool {
        let collective = |task: TaskId| self.tasks.get(task.index()).and_then(|task| task.collective);
        collective(one).is_some() && collective(one) == collective(other)
    }

    /// Whether a task reads an input of the graph, as a whole or in part.
    fn reads_input(&mut self, task: TaskId, input: Origin) -> bool {
        let (of, read) = &mut self.inputs_read;
        if *of != Some(task) {
            let reads = self.tasks.get(task.index()).into_iter().flat_map(GraphIr::reads);
            let values = reads.filter_map(|(_, value)| self.values.get(value.index()));
            *read = values.map(|value| value.origin).collect();
            *of = Some(task);
        }
        read.contains(&input)
    }

    pub(super) fn mistake(&mut self, code: Code, message: &str, location: &SourceLocation) {
        self.mistakes
            .push(Diagnostic::new(code, message, location.clone()));
    }

    /// Reports a mistake again; `CompileError::all` lists it only once.
    pub(super) fn repeat(&mut self, mistake: &Diagnostic) {
        self.mistakes.push(mistake.clone());
    }

    /// Adds a start signal to a graph without inputs: every execution starts the tasks that take no edge.
    pub(super) fn start_tasks(&mut self) {
        if !self.inputs.is_empty() {
            return;
        }
        let waits = |task: &TaskIr| task.args.iter().any(|arg| matches!(arg, ArgIr::Value(_)));
        if self.tasks.iter().all(waits) {
            return;
        }
        let start = self.signal(Origin::Input(0));
        self.inputs.push(start);
        let idle = self.tasks.iter_mut().filter(|task| !waits(task));
        idle.for_each(|task| task.args.push(ArgIr::Value(start)));
    }

    /// Returns the task that makes a value.
    fn task_of(&mut self, value: ValueId) -> Option<&mut TaskIr> {
        match self.origin(value)? {
            Origin::Task(task) => self.tasks.get_mut(task.index()),
            Origin::Input(_) => None,
        }
    }

    /// Declares the duration of the task that makes a value, in nanoseconds.
    pub(super) fn declare(&mut self, value: ValueId, ns: u64) {
        if let Some(task) = self.task_of(value) {
            task.duration_ns = Some(ns);
        }
    }

    /// Names the task that makes a value.
    pub(super) fn name_task(&mut self, value: ValueId, name: String) {
        if self.task_of(value).is_some_and(|task| task.label != name) {
            let label = numbered(&mut self.labels, name);
            if let Some(task) = self.task_of(value) {
                task.label = label;
            }
        }
    }

    /// Gives an actor a name in messages, unless it has one.
    pub(super) fn add_actor(&mut self, actor: &ActorRef) {
        if !self.names.contains_key(&actor.id()) {
            let name = numbered(&mut self.taken, actor.name().to_owned());
            self.names.insert(actor.id(), name);
            self.places.insert(actor.id(), self.actors.len());
            self.actors.push(actor.clone());
        }
    }

    /// Adds a task. Its label is `actor.method`, with a number from the second bind of the method on.
    pub(super) fn add_task(
        &mut self,
        actor: ActorId,
        (method, method_name): (u16, Cow<'static, str>),
        args: Vec<ArgIr>,
        bound_at: SourceLocation,
    ) -> TaskId {
        let label = format!("{}.{method_name}", self.actor_name(actor));
        let bind_index = self.binds.get(&actor).copied().unwrap_or_default();
        self.binds.insert(actor, BindIndex(bind_index.0 + 1));
        self.tasks.push(TaskIr {
            actor,
            method,
            extension: None,
            method_name,
            label: numbered(&mut self.labels, label),
            args,
            groups: Vec::new(),
            meets: Vec::new(),
            collective: None,
            duration_ns: None,
            bound_at,
            bind_index,
        });
        TaskId(self.tasks.len() as u32 - 1)
    }

    /// Adds the value that a task makes.
    pub(super) fn result(&mut self, task: TaskId, payload: PayloadType) -> ValueId {
        self.value(Origin::Task(task), None, payload)
    }

    pub(super) fn origin(&self, value: ValueId) -> Option<Origin> {
        self.values.get(value.index()).map(|value| value.origin)
    }

    pub(super) fn actor_name(&self, actor: ActorId) -> &str {
        self.names.get(&actor).map_or("?", String::as_str)
    }
}

thread_local! {
    /// The graphs that are being bound on this thread, the innermost last.
    static CURRENT: RefCell<Vec<Rc<RefCell<Builder>>>> = const { RefCell::new(Vec::new()) };
}

/// Returns the graph that is being bound on this thread.
pub(super) fn current() -> Option<Rc<RefCell<Builder>>> {
    CURRENT.with_borrow(|current| current.last().cloned())
}

/// Makes a graph the current graph of the thread until the scope is dropped.
pub(super) struct Scope;

impl Scope {
    pub(super) fn enter(builder: &Rc<RefCell<Builder>>) -> Self {
        CURRENT.with_borrow_mut(|current| current.push(Rc::clone(builder)));
        Scope
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(Vec::pop);
    }
}
