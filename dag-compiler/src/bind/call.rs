//! The bind of one method: its arguments are checked and flattened, and become a task.

use std::cell::RefCell;
use std::panic::Location;
use std::rc::Rc;

use selvedge_channels::{PayloadType, Wire};
use selvedge_core::ActorRef;

use super::builder::{Builder, current};
use super::edge::{Edge, Source, encoded};
use super::transport::Transport;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{ArgGroup, ArgIr, SourceLocation, ValueId};

/// One call of a handle's method during binding. The code that `#[actor]` generates uses this type.
pub struct Bind {
    actor: ActorRef,
    method: u16,
    args: Vec<(Source, Option<Transport>)>,
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
        self.args.push((edge.source.clone(), edge.transport));
        self
    }

    /// Adds a constant as the next argument.
    #[must_use]
    #[track_caller]
    pub fn constant<T: Wire>(mut self, value: &T) -> Self {
        let location = SourceLocation::from(Location::caller());
        self.args.push((encoded(value, location), None));
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
        graph.add_actor(&self.actor);
        let entry = self.actor.entry();
        let method = (self.method, entry.method_name(self.method).into());
        let task = graph.add_task(self.actor.id(), method, flat.args, location);
        if let Some(task) = graph.tasks.get_mut(task.index()) {
            task.groups = flat.groups;
        }
        let asked = flat.asked.into_iter();
        graph
            .asked
            .extend(asked.map(|(position, transport)| ((task, position), transport)));
        let method = entry.method(self.method);
        let payload = method.map_or_else(PayloadType::of::<()>, |method| (method.result)());
        graph.result(task, payload)
    }

    /// Refuses an argument with more list levels than the spelling of the parameter's type has (D0116).
    fn check_list(
        &self,
        position: usize,
        source: &Source,
        location: &SourceLocation,
    ) -> Result<(), Diagnostic> {
        let method = self.actor.entry().method(self.method);
        let param = method.and_then(|method| method.params.get(position));
        let levels = param.map_or(0, |param| (param.lists)().len());
        if source.depth() <= levels {
            return Ok(());
        }
        let (name, method) = (param.map_or("?", |param| param.name), self.name());
        let message = format!("parameter `{name}` of `{method}` is not written as a `Vec` or a slice");
        Err(Diagnostic::new(Code::NoList, message, location.clone()).labelled("takes a list of edges here"))
    }

    fn name(&self) -> String {
        let method = self.actor.entry().method_name(self.method);
        format!("{}.{method}", self.actor.name())
    }
}

/// The arguments of a task with lists flattened, and the transports that the arguments ask for.
struct Flat {
    args: Vec<ArgIr>,
    asked: Vec<(u32, Transport)>,
    /// The grouping of the arguments; empty if no argument is a list.
    groups: Vec<ArgGroup>,
    mistakes: Vec<Diagnostic>,
}

impl Flat {
    fn of(bind: &Bind, builder: &Rc<RefCell<Builder>>, location: &SourceLocation) -> Self {
        let mut flat = Flat {
            args: Vec::with_capacity(bind.args.len()),
            asked: Vec::new(),
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
            let group = flat.add(source, *transport, builder, &mixed);
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
    fn add(
        &mut self,
        source: &Source,
        transport: Option<Transport>,
        builder: &Rc<RefCell<Builder>>,
        mixed: &dyn Fn() -> Diagnostic,
    ) -> ArgGroup {
        match source {
            Source::List(members) => {
                let members = members.iter();
                let add = |(source, own): &(Source, Option<Transport>)| {
                    self.add(source, own.or(transport), builder, mixed)
                };
                return ArgGroup::List(members.map(add).collect());
            }
            Source::Value {
                builder: other,
                value,
            } if Rc::ptr_eq(other, builder) => {
                let position = self.args.len() as u32;
                self.asked
                    .extend(transport.map(|transport| (position, transport)));
                self.args.push(ArgIr::Value(*value));
            }
            Source::Value { .. } => self.mistakes.push(mixed()),
            Source::Constant(bytes) => self.args.push(ArgIr::Constant(bytes.as_ref().clone())),
            Source::Broken(diagnostic) => self.mistakes.push(diagnostic.as_ref().clone()),
        }
        ArgGroup::One
    }
}
