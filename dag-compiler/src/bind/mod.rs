//! Binding: runs the user's function once over edges and turns every call of a handle's method into a task.
//!
//! Binding itself never fails. It records each mistake, and `compile` reports all mistakes together. While the user's
//! function runs, its graph is the current graph of the thread, and every task joins that graph. So a task that is
//! bound to no edge, or to edges of another graph, is reported even if its result is dropped.

pub mod collective;
pub(crate) mod edge;
pub(crate) mod ports;

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::Location;
use std::rc::Rc;

use selvedge_channels::{PayloadType, Wire};
use selvedge_core::{ActorId, ActorRef};

use crate::bind::edge::{Edge, Source, encoded};
use crate::bind::ports::submit::Splitter;
use crate::bind::ports::{InputPorts, Inputs, OutputList, Outputs};
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{
    ActorIr, ArgGroup, ArgIr, BindIndex, BufferIr, CollectiveIr, GraphIr, Origin, SourceLocation, TaskId,
    TaskIr, TensorsIr, ValueId, ValueIr,
};
use crate::plan::transport::{Site, Transport, Way, resolve};
use crate::run::driver::leaf::AnyLeaf;

/// Returns `name` if no other object of its kind has that name, else `name` with a number. `taken` maps each name to
/// the last number that was given with it.
fn numbered(taken: &mut BTreeMap<String, u32>, name: String) -> String {
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
    actors: Vec<ActorRef>,
    /// The names of actors in messages. If several actors have one name, all but the first get a number.
    names: BTreeMap<ActorId, String>,
    /// The names of actors that are taken, each with the last number that was given with it.
    taken: BTreeMap<String, u32>,
    binds: BTreeMap<ActorId, BindIndex>,
    /// The labels of tasks that are taken, each with the last number that was given with it.
    labels: BTreeMap<String, u32>,
    tasks: Vec<TaskIr>,
    pub(crate) collectives: Vec<CollectiveIr>,
    values: Vec<ValueIr>,
    payloads: Vec<PayloadType>,
    inputs: Vec<ValueId>,
    splitters: BTreeMap<ValueId, Splitter>,
    parts: BTreeMap<(ValueId, u16), ValueId>,
    /// The signal of each task or input of the graph: a value that says that its maker is done.
    signals: BTreeMap<Origin, ValueId>,
    /// The signals that each task waits for.
    ordered: BTreeSet<(TaskId, ValueId)>,
    /// A cache for `order`: the task that was last ordered after an input of the graph, and the origins of its
    /// arguments.
    inputs_read: (Option<TaskId>, BTreeSet<Origin>),
    /// The transports that edges ask for, by task and position of the argument.
    asked: BTreeMap<(TaskId, u32), Transport>,
    mistakes: Vec<Diagnostic>,
}

impl Builder {
    fn value(&mut self, origin: Origin, part: Option<u16>, payload: PayloadType) -> ValueId {
        let id = ValueId(self.values.len() as u32);
        self.values.push(ValueIr {
            origin,
            part,
            type_name: Cow::Borrowed(payload.name()),
            signal: false,
            tensors: TensorsIr::default(),
            buffer: BufferIr::default(),
        });
        self.payloads.push(payload);
        id
    }

    /// Adds a leaf to the graph's input.
    pub(crate) fn input(&mut self, payload: PayloadType) -> ValueId {
        let id = self.value(Origin::Input(self.inputs.len() as u32), None, payload);
        self.inputs.push(id);
        id
    }

    /// Returns the value of a part of a tuple. Splitting the same value again returns the same part. `None` for a part
    /// of a part.
    pub(crate) fn part(
        &mut self,
        whole: ValueId,
        index: u16,
        payload: PayloadType,
        splitter: Splitter,
    ) -> Option<ValueId> {
        if let Some(known) = self.parts.get(&(whole, index)) {
            return Some(*known);
        }
        let value = self.values.get(whole.index())?;
        if value.part.is_some() {
            return None;
        }
        let id = self.value(value.origin, Some(index), payload);
        self.splitters.insert(whole, splitter);
        self.parts.insert((whole, index), id);
        Some(id)
    }

    fn signal(&mut self, origin: Origin) -> ValueId {
        let id = self.value(origin, None, PayloadType::of::<()>());
        if let Some(value) = self.values.get_mut(id.index()) {
            value.signal = true;
        }
        id
    }

    /// Makes the task of `later` wait until the maker of `before` is done.
    pub(crate) fn order(&mut self, later: ValueId, before: ValueId, location: &SourceLocation) {
        let origin = |value: ValueId| self.values.get(value.index()).map(|value| value.origin);
        let (Some(Origin::Task(task)), Some(before_origin)) = (origin(later), origin(before)) else {
            return;
        };
        if let Origin::Task(before) = before_origin
            && before >= task
        {
            let message = "a task is ordered after one that is bound later, or after itself";
            return self.mistake(Code::OrderedLater, message, location);
        }
        if matches!(before_origin, Origin::Input(_)) {
            let (of, read) = &mut self.inputs_read;
            if *of != Some(task) {
                let args = self.tasks.get(task.index()).map_or(&[][..], |task| &task.args);
                let values = args.iter().filter_map(|arg| match arg {
                    ArgIr::Value(value) => self.values.get(value.index()),
                    ArgIr::Constant(_) => None,
                });
                *read = values.map(|value| value.origin).collect();
                *of = Some(task);
            }
            if read.contains(&before_origin) {
                // The task reads this input, so the input has arrived before the task runs.
                return;
            }
        }
        let value = match self.signals.get(&before_origin) {
            Some(signal) => *signal,
            None => {
                let signal = self.signal(before_origin);
                self.signals.insert(before_origin, signal);
                signal
            }
        };
        if self.ordered.insert((task, value))
            && let Some(task) = self.tasks.get_mut(task.index())
        {
            task.args.push(ArgIr::Value(value));
        }
    }

    /// Declares the duration of the task that makes a value, in nanoseconds.
    pub(crate) fn declare(&mut self, value: ValueId, ns: u64) {
        if let Some(Origin::Task(task)) = self.values.get(value.index()).map(|value| value.origin)
            && let Some(task) = self.tasks.get_mut(task.index())
        {
            task.duration_ns = Some(ns);
        }
    }

    pub(crate) fn mistake(&mut self, code: Code, message: &str, location: &SourceLocation) {
        self.mistakes
            .push(Diagnostic::new(code, message, location.clone()));
    }

    /// Reports a mistake again; `CompileError::all` lists it only once.
    pub(crate) fn repeat(&mut self, mistake: &Diagnostic) {
        self.mistakes.push(mistake.clone());
    }

    /// Adds a start signal to a graph without inputs: every execution starts the tasks that take no edge.
    fn start_tasks(&mut self) {
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

    /// Resolves how every argument crosses between actors (TYPE-07).
    fn resolve(&mut self, default: Transport) {
        if default == Transport::Auto && self.asked.is_empty() {
            return;
        }
        let sites: BTreeMap<ActorId, Site> = self.actors.iter().map(|it| (it.id(), site(it))).collect();
        let makers: Vec<ActorId> = self.tasks.iter().map(|task| task.actor).collect();
        let site_of = |actor: Option<&ActorId>| {
            let site = actor.and_then(|actor| sites.get(actor)).copied();
            site.unwrap_or(Site::DRIVER)
        };
        for (index, task) in self.tasks.iter_mut().enumerate() {
            for (position, arg) in (0u32..).zip(&task.args) {
                let ArgIr::Value(value) = arg else { continue };
                let writer = match self.values.get(value.index()).map(|value| value.origin) {
                    Some(Origin::Task(maker)) => site_of(makers.get(maker.index())),
                    _ => Site::DRIVER,
                };
                let reader = site_of(Some(&task.actor));
                let asked = self.asked.get(&(TaskId(index as u32), position)).copied();
                if resolve(asked.unwrap_or(default), writer, reader).0 == Way::Rendezvous {
                    task.meets.push(position);
                }
            }
        }
    }

    pub(crate) fn name_task(&mut self, value: ValueId, name: String) {
        if let Some(Origin::Task(task)) = self.values.get(value.index()).map(|value| value.origin)
            && let Some(task) = self.tasks.get_mut(task.index())
            && task.label != name
        {
            task.label = numbered(&mut self.labels, name);
        }
    }

    /// Returns the label `actor.method`, with a number from the second bind of the method on.
    pub(crate) fn label(&mut self, actor: ActorId, method: &str) -> String {
        let actor = self.actor_name(actor);
        let label = format!("{actor}.{method}");
        numbered(&mut self.labels, label)
    }

    /// Returns the position of the next bind among those of an actor, and counts the bind.
    pub(crate) fn next_bind(&mut self, actor: ActorId) -> BindIndex {
        let next = self.binds.entry(actor).or_default();
        let bind_index = *next;
        next.0 += 1;
        bind_index
    }

    pub(crate) fn push_task(&mut self, task: TaskIr) -> TaskId {
        self.tasks.push(task);
        TaskId(self.tasks.len() as u32 - 1)
    }

    /// Adds the value that a task makes.
    pub(crate) fn result(&mut self, task: TaskId, payload: PayloadType) -> ValueId {
        self.value(Origin::Task(task), None, payload)
    }

    pub(crate) fn origin(&self, value: ValueId) -> Option<Origin> {
        self.values.get(value.index()).map(|value| value.origin)
    }

    pub(crate) fn actor_of(&self, task: TaskId) -> Option<ActorId> {
        self.tasks.get(task.index()).map(|task| task.actor)
    }

    pub(crate) fn actor_name(&self, actor: ActorId) -> &str {
        self.names.get(&actor).map_or("?", String::as_str)
    }

    fn task(&mut self, bind: &Bind, args: Vec<ArgIr>, bound_at: SourceLocation) -> TaskId {
        let actor = &bind.actor;
        if !self.names.contains_key(&actor.id()) {
            let name = numbered(&mut self.taken, actor.name().to_owned());
            self.names.insert(actor.id(), name);
            self.actors.push(actor.clone());
        }
        let bind_index = self.next_bind(actor.id());
        let method_name = actor.entry().method_name(bind.method);
        let label = self.label(actor.id(), method_name);
        self.push_task(TaskIr {
            actor: actor.id(),
            method: bind.method,
            method_name: Cow::Borrowed(method_name),
            label,
            args,
            groups: Vec::new(),
            meets: Vec::new(),
            collective: None,
            duration_ns: None,
            bound_at,
            bind_index,
        })
    }
}

thread_local! {
    /// The graphs that are being bound on this thread, the innermost last.
    static CURRENT: RefCell<Vec<Rc<RefCell<Builder>>>> = const { RefCell::new(Vec::new()) };
}

/// Returns the graph that is being bound on this thread.
pub(crate) fn current() -> Option<Rc<RefCell<Builder>>> {
    CURRENT.with_borrow(|current| current.last().cloned())
}

/// Makes a graph the current graph of the thread until the scope is dropped.
struct Scope;

impl Scope {
    fn enter(builder: &Rc<RefCell<Builder>>) -> Self {
        CURRENT.with_borrow_mut(|current| current.push(Rc::clone(builder)));
        Scope
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(Vec::pop);
    }
}

enum BoundArg {
    Value(Rc<RefCell<Builder>>, ValueId, Option<Transport>),
    Constant(Vec<u8>),
    List(Vec<BoundArg>),
    Broken(Rc<Diagnostic>),
}

impl BoundArg {
    fn of(source: &Source, transport: Option<Transport>) -> Self {
        match source {
            Source::Value { builder, value } => BoundArg::Value(Rc::clone(builder), *value, transport),
            Source::Constant(bytes) => BoundArg::Constant(bytes.as_ref().clone()),
            Source::List(members) => {
                let members = members.iter();
                BoundArg::List(
                    members
                        .map(|(source, own)| BoundArg::of(source, own.or(transport)))
                        .collect(),
                )
            }
            Source::Broken(diagnostic) => BoundArg::Broken(Rc::clone(diagnostic)),
        }
    }

    /// Returns the number of list levels; 0 for an argument that is not a list.
    fn depth(&self) -> usize {
        match self {
            BoundArg::List(members) => 1 + members.iter().map(BoundArg::depth).max().unwrap_or_default(),
            _ => 0,
        }
    }

    /// Returns the graph of the first edge in the argument.
    fn graph(&self) -> Option<Rc<RefCell<Builder>>> {
        match self {
            BoundArg::Value(builder, ..) => Some(Rc::clone(builder)),
            BoundArg::List(members) => members.iter().find_map(BoundArg::graph),
            BoundArg::Constant(_) | BoundArg::Broken(_) => None,
        }
    }
}

/// The arguments of a task with lists flattened, and the transports that the arguments ask for.
struct Flat {
    args: Vec<ArgIr>,
    asked: Vec<(u32, Transport)>,
}

/// One call of a handle's method during binding. The code that `#[actor]` generates uses this type.
pub struct Bind {
    actor: ActorRef,
    method: u16,
    args: Vec<BoundArg>,
}

/// Begins to bind method number `method` of an actor.
pub fn bind(actor: &ActorRef, method: u16) -> Bind {
    Bind {
        actor: actor.clone(),
        method,
        args: Vec::new(),
    }
}

impl Bind {
    /// Adds an edge as the next argument.
    #[must_use]
    pub fn arg<T>(mut self, edge: &Edge<T>) -> Self {
        self.args.push(BoundArg::of(&edge.source, edge.transport));
        self
    }

    /// Adds a constant as the next argument.
    #[must_use]
    #[track_caller]
    pub fn constant<T: Wire>(mut self, value: &T) -> Self {
        let location = SourceLocation::from(Location::caller());
        self.args.push(BoundArg::of(&encoded(value, location), None));
        self
    }

    /// Adds the task to the graph that is being bound and returns the edge of its result. `T` is the result type that
    /// the actor's entry declares.
    #[track_caller]
    pub fn finish<T>(mut self) -> Edge<T> {
        let location = SourceLocation::from(Location::caller());
        let own = self.args.iter().find_map(BoundArg::graph);
        let Some(builder) = current().or_else(|| own.clone()) else {
            return Edge::new(Source::Broken(Rc::new(self.no_input_edge(location))));
        };
        let mut graph = builder.borrow_mut();
        let mut flat = Flat {
            args: Vec::with_capacity(self.args.len()),
            asked: Vec::new(),
        };
        let has_lists = self.args.iter().any(|arg| matches!(arg, BoundArg::List(_)));
        let mut groups = Vec::new();
        for (position, arg) in std::mem::take(&mut self.args).into_iter().enumerate() {
            if let Err(mistake) = self.check_list(position, &arg, &location) {
                graph.mistakes.push(mistake);
                continue;
            }
            let group = self.flatten(arg, &builder, &mut graph, &location, &mut flat);
            if has_lists {
                groups.push(group);
            }
        }
        let Flat { args, asked } = flat;
        let task = graph.task(&self, args, location);
        if groups.iter().any(|group| *group != ArgGroup::One)
            && let Some(task) = graph.tasks.get_mut(task.index())
        {
            task.groups = groups;
        }
        let asked = asked
            .into_iter()
            .map(|(position, transport)| ((task, position), transport));
        graph.asked.extend(asked);
        let method = self.actor.entry().method(self.method);
        let payload = method.map_or_else(PayloadType::of::<()>, |method| (method.result)());
        let value = graph.value(Origin::Task(task), None, payload);
        drop(graph);
        Edge::new(Source::Value { builder, value })
    }

    /// Adds one argument, or all arguments of a list.
    fn flatten(
        &self,
        arg: BoundArg,
        builder: &Rc<RefCell<Builder>>,
        graph: &mut Builder,
        location: &SourceLocation,
        flat: &mut Flat,
    ) -> ArgGroup {
        match arg {
            BoundArg::List(members) => {
                let member = |member| self.flatten(member, builder, graph, location, flat);
                return ArgGroup::List(members.into_iter().map(member).collect());
            }
            BoundArg::Value(other, value, transport) if Rc::ptr_eq(&other, builder) => {
                flat.asked
                    .extend(transport.map(|transport| (flat.args.len() as u32, transport)));
                flat.args.push(ArgIr::Value(value));
            }
            BoundArg::Value(..) => {
                let mistake = self.mixed(location.clone());
                graph.mistakes.push(mistake);
            }
            BoundArg::Constant(bytes) => flat.args.push(ArgIr::Constant(bytes)),
            BoundArg::Broken(diagnostic) => graph.mistakes.push(diagnostic.as_ref().clone()),
        }
        ArgGroup::One
    }

    /// Refuses an argument with more list levels than the spelling of the parameter's type has (D0116).
    fn check_list(
        &self,
        position: usize,
        arg: &BoundArg,
        location: &SourceLocation,
    ) -> Result<(), Diagnostic> {
        let param = self
            .actor
            .entry()
            .method(self.method)
            .and_then(|method| method.params.get(position));
        let levels = param.map_or(0, |param| (param.lists)().len());
        if arg.depth() <= levels {
            return Ok(());
        }
        let name = param.map_or("?", |param| param.name);
        let message = format!(
            "parameter `{name}` of `{}` is not written as a `Vec` or a slice",
            self.name()
        );
        Err(Diagnostic::new(Code::NoList, message, location.clone()).labelled("takes a list of edges here"))
    }

    fn name(&self) -> String {
        format!(
            "{}.{}",
            self.actor.name(),
            self.actor.entry().method_name(self.method)
        )
    }

    fn no_input_edge(&self, location: SourceLocation) -> Diagnostic {
        Diagnostic::no_input_edge(&self.name(), location)
    }

    fn mixed(&self, location: SourceLocation) -> Diagnostic {
        let message = format!("`{}` takes an edge of another graph", self.name());
        Diagnostic::new(Code::MixedGraphs, message, location).labelled("an edge of another call of `compile`")
    }
}

/// A bound graph.
pub(crate) struct BoundGraph {
    pub(crate) ir: GraphIr,
    pub(crate) recipe: RuntimeParts,
    pub(crate) mistakes: Vec<Diagnostic>,
}

/// The parts of a graph that are not plain data. The driver's process needs them to start the graph.
pub(crate) struct RuntimeParts {
    /// The type of each value.
    pub(crate) payloads: Vec<PayloadType>,
    pub(crate) actors: Vec<ActorRef>,
    pub(crate) splitters: BTreeMap<ValueId, Splitter>,
    /// The constructor of each output leaf, which stores the results of that leaf.
    pub(crate) leaves: Vec<fn(usize) -> Box<dyn AnyLeaf>>,
    /// The lengths of the `Vec`s in the output.
    pub(crate) lengths: Vec<usize>,
}

/// Runs the user's function over new edges and returns the bound graph.
pub(crate) fn bind_graph<I: Inputs, O: Outputs>(
    name: Option<&str>,
    width: usize,
    default: Transport,
    compiled_at: SourceLocation,
    function: impl FnOnce(I) -> O,
) -> BoundGraph {
    let builder = Rc::new(RefCell::new(Builder::default()));
    let mut ports = InputPorts {
        builder: Rc::clone(&builder),
        width,
    };
    let scope = Scope::enter(&builder);
    let output = function(I::open(&mut ports));
    drop(scope);
    let mut list = OutputList::default();
    output.list(&mut list);
    let mut graph = builder.take();
    graph.start_tasks();
    graph.resolve(default);
    graph.note_hints();
    let mut outputs = Vec::with_capacity(list.leaves.len());
    for leaf in &list.leaves {
        match &leaf.source {
            Source::Value {
                builder: other,
                value,
            } if Rc::ptr_eq(other, &builder) => outputs.push(*value),
            Source::Value { .. } => {
                let message = "an output is an edge of another graph";
                graph
                    .mistakes
                    .push(Diagnostic::new(Code::MixedGraphs, message, compiled_at.clone()));
            }
            Source::List(_) => {
                let message = "an output is a list of edges made by `gather`: return a `Vec` of edges";
                graph
                    .mistakes
                    .push(Diagnostic::new(Code::NoOutput, message, compiled_at.clone()));
            }
            Source::Constant(_) => {
                let message = "an output is a constant, which no execution would change";
                graph
                    .mistakes
                    .push(Diagnostic::new(Code::NoOutput, message, compiled_at.clone()));
            }
            Source::Broken(diagnostic) => graph.mistakes.push(diagnostic.as_ref().clone()),
        }
    }
    let name = name.map_or_else(
        || format!("{}:{}", compiled_at.file, compiled_at.line),
        str::to_owned,
    );
    let names = &graph.names;
    let actors = graph.actors.iter().map(|actor| actor_ir(actor, names)).collect();
    let ir = GraphIr {
        name,
        actors,
        tasks: graph.tasks,
        collectives: graph.collectives,
        values: graph.values,
        inputs: graph.inputs,
        outputs,
        compiled_at,
    };
    BoundGraph {
        ir,
        recipe: RuntimeParts {
            payloads: graph.payloads,
            actors: graph.actors,
            splitters: graph.splitters,
            leaves: list.leaves.iter().map(|leaf| leaf.leaf).collect(),
            lengths: list.lengths,
        },
        mistakes: graph.mistakes,
    }
}

fn site(actor: &ActorRef) -> Site {
    Site::actor(actor.address(), actor.device())
}

fn actor_ir(actor: &ActorRef, names: &BTreeMap<ActorId, String>) -> ActorIr {
    let name = names.get(&actor.id());
    ActorIr {
        id: actor.id(),
        name: name.map_or_else(|| actor.name().to_owned(), String::clone),
        type_name: actor.entry().key(),
        lane: actor.lane(),
        home: actor.address(),
        placement: actor.placement().to_string(),
        core: actor.core(),
        device: actor.device(),
        commutes: false,
    }
}

mod hints;

#[cfg(test)]
mod tests;
