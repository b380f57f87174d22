//! The bind of one method: its arguments are checked and flattened, and become a task.

use std::cell::RefCell;
use std::panic::Location;
use std::rc::Rc;

use selvedge_channels::{Payload, PayloadType};
use selvedge_core::{ActorRef, ListLevel, Method, ParamEntry, check_linked, note_extension};

use super::builder::{Builder, current};
use super::constant::Constant;
use super::edge::{Edge, Source};
use super::transport::Transport;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{ArgGroup, ArgIr, SourceLocation, ValueId};

/// One call of a handle's method during binding. The code that `#[actor]` generates uses this type.
pub struct Bind {
    actor: ActorRef,
    method: Method,
    args: Vec<(Source, Option<Transport>)>,
}

/// Begins to bind a method of an actor: of its entry, by index, or of an extension.
pub fn bind(actor: &ActorRef, method: impl Into<Method>) -> Bind {
    Bind {
        actor: actor.clone(),
        method: method.into(),
        args: Vec::new(),
    }
}

impl Bind {
    /// Adds an edge as the next argument.
    #[must_use]
    pub fn arg<T>(mut self, edge: &Edge<T>) -> Self {
        self.args.push((edge.source.clone(), edge.transport));
        self
    }

    /// Adds a constant as the next argument.
    #[must_use]
    pub fn constant<T: Payload>(mut self, value: T) -> Self {
        self.args.push((Source::Constant(Constant::new(value)), None));
        self
    }

    /// Adds the task to the graph that is being bound and returns the edge of its result. `T` is the result type that
    /// the actor's entry declares.
    #[track_caller]
    pub fn finish<T>(self) -> Edge<T> {
        let location = SourceLocation::from(Location::caller());
        let own = || self.args.iter().find_map(|(source, _)| source.graph());
        let Some(builder) = current().or_else(own) else {
            let mistake = Diagnostic::no_input_edge(&self.name(), location);
            return Edge::new(Source::Broken(Rc::new(mistake)));
        };
        let value = self.task(&builder, location);
        Edge::new(Source::Value { builder, value })
    }

    /// Adds the task to a graph and returns its result.
    fn task(&self, builder: &Rc<RefCell<Builder>>, location: SourceLocation) -> ValueId {
        let flat = Flat::of(self, builder, &location);
        let mut graph = builder.borrow_mut();
        graph.mistakes.extend(flat.mistakes);
        graph.mistakes.extend(self.unknown_there(&location));
        graph.add_actor(&self.actor);
        let entry = self.actor.entry();
        let method = (self.method.index, self.method.name(entry).into());
        let task = graph.add_task(self.actor.id(), method, flat.args, location);
        if let Some(task) = graph.tasks.get_mut(task.index()) {
            task.groups = flat.groups;
            task.extension = self.method.extension.map(note_extension);
        }
        let asked = flat.asked.into_iter();
        graph
            .asked
            .extend(asked.map(|(position, transport)| ((task, position), transport)));
        let constants = flat.constants.into_iter();
        graph
            .constants
            .extend(constants.map(|(position, constant)| ((task, position), constant)));
        let method = self.method.of(entry);
        let payload = method.map_or_else(PayloadType::of::<()>, |method| (method.result)());
        graph.result(task, payload)
    }

    /// Refuses an operation that the actor's worker process cannot find (D0112).
    fn unknown_there(&self, location: &SourceLocation) -> Option<Diagnostic> {
        let extension = self.method.extension?;
        self.actor.worker()?;
        let unknown = check_linked(extension).err()?;
        let mistake = Diagnostic::new(Code::LoadFailed, unknown.to_string(), location.clone());
        Some(mistake.labelled("runs in a worker process"))
    }

    /// Refuses an argument with more list levels than the spelling of the parameter's type has (D0116).
    fn check_list(
        &self,
        position: usize,
        source: &Source,
        location: &SourceLocation,
    ) -> Result<(), Diagnostic> {
        let param = self.param(position);
        let levels = param.map_or(0, |param| (param.lists)().len());
        if source.depth() <= levels {
            return Ok(());
        }
        let (name, method) = (param.map_or("?", |param| param.name), self.name());
        let message = format!("parameter `{name}` of `{method}` is not written as a `Vec` or a slice");
        Err(Diagnostic::new(Code::NoList, message, location.clone()).labelled("takes a list of edges here"))
    }

    fn param(&self, position: usize) -> Option<&'static ParamEntry> {
        let method = self.method.of(self.actor.entry());
        method.and_then(|method| method.params.get(position))
    }

    fn name(&self) -> String {
        let method = self.method.name(self.actor.entry());
        format!("{}.{method}", self.actor.name())
    }
}

/// The arguments of a task with lists flattened, and the transports that the arguments ask for.
struct Flat {
    args: Vec<ArgIr>,
    asked: Vec<(u32, Transport)>,
    constants: Vec<(u32, Constant)>,
    /// The grouping of the arguments; empty if no argument is a list.
    groups: Vec<ArgGroup>,
    mistakes: Vec<Diagnostic>,
}

impl Flat {
    fn of(bind: &Bind, builder: &Rc<RefCell<Builder>>, location: &SourceLocation) -> Self {
        let mut flat = Flat {
            args: Vec::with_capacity(bind.args.len()),
            asked: Vec::new(),
            constants: Vec::new(),
            groups: Vec::new(),
            mistakes: Vec::new(),
        };
        let mixed = || {
            let message = format!("`{}` takes an edge of another graph", bind.name());
            let mistake = Diagnostic::new(Code::MixedGraphs, message, location.clone());
            mistake.labelled("an edge of another call of `compile`")
        };
        let has_lists = bind
            .args
            .iter()
            .any(|(source, _)| matches!(source, Source::List(_)));
        for (position, (source, transport)) in bind.args.iter().enumerate() {
            if let Err(mistake) = bind.check_list(position, source, location) {
                flat.mistakes.push(mistake);
                continue;
            }
            let param = bind.param(position);
            let site = ArgSite {
                builder,
                mixed: &mixed,
                bind,
                location,
                payload: param.map(|param| (param.payload)()),
                lists: &param.map_or_else(Vec::new, |param| (param.lists)()),
            };
            let group = flat.add(source, *transport, &site);
            if has_lists {
                flat.groups.push(group);
            }
        }
        if flat.groups.iter().all(|group| *group == ArgGroup::One) {
            flat.groups.clear();
        }
        flat
    }

    /// Adds one argument, or all arguments of a list.
    fn add(&mut self, source: &Source, transport: Option<Transport>, site: &ArgSite<'_>) -> ArgGroup {
        let position = self.args.len() as u32;
        match source {
            Source::List(members) => {
                let inner = site.element();
                let members = members.iter();
                let add =
                    |(source, own): &(Source, Option<Transport>)| self.add(source, own.or(transport), &inner);
                return ArgGroup::List(members.map(add).collect());
            }
            Source::Value {
                builder: other,
                value,
            } if Rc::ptr_eq(other, site.builder) => {
                self.asked
                    .extend(transport.map(|transport| (position, transport)));
                self.args.push(ArgIr::Value(*value));
            }
            Source::Value { .. } => self.mistakes.push((site.mixed)()),
            Source::Constant(constant) => match site.constant(constant) {
                Ok(bytes) => {
                    self.args.push(ArgIr::Constant(bytes));
                    self.constants.push((position, constant.clone()));
                }
                Err(mistake) => self.mistakes.push(mistake),
            },
            Source::Broken(diagnostic) => self.mistakes.push(diagnostic.as_ref().clone()),
        }
        ArgGroup::One
    }
}

/// The place of an argument: its task, and the type of its parameter or of an element of its parameter.
struct ArgSite<'a> {
    builder: &'a Rc<RefCell<Builder>>,
    mixed: &'a dyn Fn() -> Diagnostic,
    bind: &'a Bind,
    location: &'a SourceLocation,
    payload: Option<PayloadType>,
    /// The list levels of the parameter, from here inwards.
    lists: &'a [ListLevel],
}

impl ArgSite<'_> {
    /// Returns the place of an element of the list that is here.
    fn element(&self) -> Self {
        let (level, lists) = self.lists.split_first().unzip();
        ArgSite {
            payload: level.map(|level| level.element),
            lists: lists.unwrap_or_default(),
            ..*self
        }
    }

    /// Encodes a constant for an actor of another process; an actor of this process gets the constant itself, so the
    /// bytes are empty. A constant must be `Clone`.
    fn constant(&self, constant: &Constant) -> Result<Vec<u8>, Diagnostic> {
        let mistake = |type_name: &str, reason: String| {
            let message = format!("a constant of type `{type_name}` cannot be given to a task: {reason}");
            Diagnostic::new(Code::BadConstant, message, self.location.clone())
        };
        let Some(payload) = self.payload else {
            return Err(mistake("?", "the method has no such parameter".to_owned()));
        };
        let result = if self.bind.actor.worker().is_none() {
            payload.check_clone().map(|()| Vec::new())
        } else {
            constant.encode(payload)
        };
        result.map_err(|error| mistake(payload.name(), error.to_string()))
    }
}
