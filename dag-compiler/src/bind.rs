//! Binding: the user's function runs once over edges, and every call of a handle's method becomes a task.
//!
//! Nothing fails here: a mistake is kept and reported by `compile` with all others.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::Location;
use std::rc::Rc;

use selvedge_channels::{PayloadType, Wire};
use selvedge_core::{ActorId, ActorRef, LaneId, ProcessId};

use crate::diagnostic::{Code, Diagnostic};
use crate::edge::{Edge, Source};
use crate::ir::{ActorIr, ArgIr, GraphIr, Origin, SourceLocation, TaskId, TaskIr, ValueId, ValueIr};
use crate::ports::{InputPorts, Inputs, OutputLeaf, OutputList, Outputs, Splitter};

/// A graph under construction.
#[derive(Default)]
pub(crate) struct Builder {
    actors: Vec<ActorRef>,
    binds: BTreeMap<ActorId, u32>,
    labels: BTreeMap<(ActorId, u16), u32>,
    tasks: Vec<TaskIr>,
    values: Vec<ValueIr>,
    payloads: Vec<PayloadType>,
    inputs: Vec<ValueId>,
    splitters: BTreeMap<ValueId, Splitter>,
    parts: BTreeMap<(ValueId, u16), ValueId>,
    mistakes: Vec<Diagnostic>,
}

impl Builder {
    fn value(&mut self, origin: Origin, part: Option<u16>, payload: PayloadType) -> ValueId {
        let id = ValueId(self.values.len() as u32);
        self.values.push(ValueIr {
            origin,
            part,
            type_name: payload.name().to_owned(),
        });
        self.payloads.push(payload);
        id
    }

    /// One more leaf of the graph's input.
    pub(crate) fn input(&mut self, payload: PayloadType) -> ValueId {
        let id = self.value(Origin::Input(self.inputs.len() as u32), None, payload);
        self.inputs.push(id);
        id
    }

    /// A part of a tuple; the same edge for the same part.
    pub(crate) fn part(
        &mut self,
        whole: ValueId,
        index: u16,
        payload: PayloadType,
        splitter: Splitter,
    ) -> ValueId {
        if let Some(known) = self.parts.get(&(whole, index)) {
            return *known;
        }
        let origin = self
            .values
            .get(whole.index())
            .map_or(Origin::Input(u32::MAX), |value| value.origin);
        let id = self.value(origin, Some(index), payload);
        self.splitters.insert(whole, splitter);
        self.parts.insert((whole, index), id);
        id
    }

    pub(crate) fn name_task(&mut self, value: ValueId, name: String) {
        if let Some(Origin::Task(task)) = self.values.get(value.index()).map(|value| value.origin)
            && let Some(task) = self.tasks.get_mut(task.index())
        {
            task.label = name;
        }
    }

    /// `actor.method`, with a number from the second bind on.
    fn label(&mut self, actor: &ActorRef, method: u16) -> String {
        let count = self.labels.entry((actor.id(), method)).or_default();
        *count += 1;
        let name = format!("{}.{}", actor.name(), actor.entry().method_name(method));
        if *count > 1 {
            format!("{name}#{count}")
        } else {
            name
        }
    }

    fn task(&mut self, bind: &Bind, args: Vec<ArgIr>, bound_at: SourceLocation) -> TaskId {
        let actor = &bind.actor;
        if !self.actors.iter().any(|known| known.id() == actor.id()) {
            self.actors.push(actor.clone());
        }
        let binds = self.binds.entry(actor.id()).or_default();
        let bind_index = *binds;
        *binds += 1;
        let label = self.label(actor, bind.method);
        let id = TaskId(self.tasks.len() as u32);
        let method_name = actor.entry().method_name(bind.method).to_owned();
        self.tasks.push(TaskIr {
            actor: actor.id(),
            method: bind.method,
            method_name,
            label,
            args,
            bound_at,
            bind_index,
        });
        id
    }
}

enum BoundArg {
    Value(Rc<RefCell<Builder>>, ValueId),
    Constant(Vec<u8>),
    Broken(Rc<Diagnostic>),
}

/// One call of a handle's method while binding. What `#[actor]` generates goes through here.
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
    /// The next argument, an edge.
    #[must_use]
    pub fn arg<T: Wire>(mut self, edge: &Edge<T>) -> Self {
        self.args.push(match &edge.source {
            Source::Value { builder, value } => BoundArg::Value(Rc::clone(builder), *value),
            Source::Constant(bytes) => BoundArg::Constant(bytes.as_ref().clone()),
            Source::Broken(diagnostic) => BoundArg::Broken(Rc::clone(diagnostic)),
        });
        self
    }

    /// The next argument, a constant.
    #[must_use]
    pub fn constant<T: Wire>(mut self, value: &T) -> Self {
        let bytes = selvedge_channels::encode(value)
            .map(|encoded| encoded.to_vec())
            .unwrap_or_default();
        self.args.push(BoundArg::Constant(bytes));
        self
    }

    /// Adds the task to its graph and returns the edge of its result.
    #[track_caller]
    pub fn finish<T: Wire>(mut self) -> Edge<T> {
        let location = SourceLocation::from(Location::caller());
        let builders: Vec<_> = self
            .args
            .iter()
            .filter_map(|arg| match arg {
                BoundArg::Value(builder, _) => Some(Rc::clone(builder)),
                _ => None,
            })
            .collect();
        let Some(builder) = builders.first() else {
            return self.without_edge(location);
        };
        let mut graph = builder.borrow_mut();
        let mut args = Vec::with_capacity(self.args.len());
        for arg in std::mem::take(&mut self.args) {
            args.push(match arg {
                BoundArg::Value(other, value) if Rc::ptr_eq(&other, builder) => ArgIr::Value(value),
                BoundArg::Value(..) => {
                    let (name, method) = (self.actor.name(), self.actor.entry().method_name(self.method));
                    let message = format!("`{name}.{method}` takes edges of two graphs");
                    let mistake = Diagnostic::new(Code::MixedGraphs, message, location.clone());
                    graph
                        .mistakes
                        .push(mistake.labelled("an edge of another call of `compile`"));
                    ArgIr::Constant(Vec::new())
                }
                BoundArg::Constant(bytes) => ArgIr::Constant(bytes),
                BoundArg::Broken(diagnostic) => {
                    graph.mistakes.push(diagnostic.as_ref().clone());
                    ArgIr::Constant(Vec::new())
                }
            });
        }
        let task = graph.task(&self, args, location);
        let value = graph.value(Origin::Task(task), None, PayloadType::of::<T>());
        drop(graph);
        Edge::new(Source::Value {
            builder: Rc::clone(builder),
            value,
        })
    }

    fn without_edge<T>(self, location: SourceLocation) -> Edge<T> {
        let broken = self.args.iter().find_map(|arg| match arg {
            BoundArg::Broken(diagnostic) => Some(Rc::clone(diagnostic)),
            _ => None,
        });
        let (name, method) = (self.actor.name(), self.actor.entry().method_name(self.method));
        let message = format!("`{name}.{method}` takes no edge, so nothing would ever start it");
        let fresh = || {
            Rc::new(
                Diagnostic::new(Code::NoInputEdge, message, location)
                    .labelled("all its arguments are constants"),
            )
        };
        Edge::new(Source::Broken(broken.unwrap_or_else(fresh)))
    }
}

/// A bound graph: its plain data, and what the driver's process knows beside it.
pub(crate) struct Bound {
    pub(crate) ir: GraphIr,
    /// The type of each value.
    pub(crate) payloads: Vec<PayloadType>,
    pub(crate) actors: Vec<ActorRef>,
    pub(crate) splitters: BTreeMap<ValueId, Splitter>,
    pub(crate) leaves: Vec<OutputLeaf>,
    pub(crate) lengths: Vec<usize>,
    pub(crate) mistakes: Vec<Diagnostic>,
}

/// Runs the user's function over fresh edges.
pub(crate) fn bind_graph<I: Inputs, O: Outputs>(
    name: Option<&str>,
    width: usize,
    compiled_at: SourceLocation,
    function: impl FnOnce(I) -> O,
) -> Bound {
    let builder = Rc::new(RefCell::new(Builder::default()));
    let mut ports = InputPorts {
        builder: Rc::clone(&builder),
        width,
    };
    let output = function(I::open(&mut ports));
    let mut list = OutputList::default();
    output.list(&mut list);
    let mut graph = builder.take();
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
    let actors = graph.actors.iter().map(actor_ir).collect();
    let ir = GraphIr {
        name,
        actors,
        tasks: graph.tasks,
        values: graph.values,
        inputs: graph.inputs,
        outputs,
        compiled_at,
    };
    Bound {
        ir,
        payloads: graph.payloads,
        actors: graph.actors,
        splitters: graph.splitters,
        leaves: list.leaves,
        lengths: list.lengths,
        mistakes: graph.mistakes,
    }
}

fn actor_ir(actor: &ActorRef) -> ActorIr {
    ActorIr {
        id: actor.id(),
        name: actor.name().to_owned(),
        type_name: actor.entry().name.to_owned(),
        lane: actor.lane(),
        process: actor.process(),
        placement: actor.placement().to_string(),
    }
}

impl Bound {
    /// Lanes that may wait at the same time: the driver's and those of the actors.
    pub(crate) fn lanes(&self) -> usize {
        let mut lanes: Vec<(ProcessId, LaneId)> = self
            .ir
            .actors
            .iter()
            .map(|actor| (actor.process, actor.lane))
            .collect();
        lanes.push((ProcessId(0), LaneId(0)));
        lanes.sort_unstable();
        lanes.dedup();
        lanes.len()
    }
}
