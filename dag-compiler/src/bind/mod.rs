//! Binding: runs the user's function once over edges and turns every call of a handle's method into a task.
//!
//! Binding itself never fails. It records each mistake, and `compile` reports all mistakes together. While the user's
//! function runs, its graph is the current graph of the thread, and every task joins that graph. So a task that is
//! bound to no edge, or to edges of another graph, is reported even if its result is dropped.

mod builder;
mod call;
pub mod collective;
pub(crate) mod constant;
pub(crate) mod edge;
mod function;
mod hints;
mod payloads;
pub(crate) mod ports;
pub(crate) mod transport;

use std::cell::RefCell;
use std::rc::Rc;

use selvedge_channels::PayloadType;
use selvedge_core::{ActorId, ActorRef, FunctionActor, IdMap, Runtime};

use crate::bind::builder::{Builder, Scope};
pub use crate::bind::call::{Bind, bind};
use crate::bind::constant::Constant;
use crate::bind::edge::Source;
#[doc(hidden)] // for generated code
pub use crate::bind::function::{TaskParameter, function_actor};
use crate::bind::ports::{InputPorts, Inputs, OutputList, Outputs, Splitter};
use crate::bind::transport::Transport;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{ActorIr, GraphIr, SourceLocation, TaskId, ValueId};
use crate::run::driver::leaf::AnyLeaf;

/// A bound graph.
pub(crate) struct BoundGraph {
    pub(crate) ir: GraphIr,
    pub(crate) recipe: RuntimeParts,
    pub(crate) mistakes: Vec<Diagnostic>,
    /// Whether an input of the graph is a `Vec`.
    pub(crate) lists: bool,
}

/// The parts of a graph that are not plain data. The driver's process needs them to start the graph.
pub(crate) struct RuntimeParts {
    /// The type of each value.
    pub(crate) payloads: Vec<PayloadType>,
    pub(crate) actors: Vec<ActorRef>,
    /// The actors that stand for functions, which end with the graph.
    pub(crate) _functions: Vec<FunctionActor>,
    pub(crate) splitters: IdMap<ValueId, Splitter>,
    /// The constants among the arguments, by task and position of the argument.
    pub(crate) constants: IdMap<(TaskId, u32), Constant>,
    /// The constructor of each output leaf, which stores the results of that leaf.
    pub(crate) leaves: Vec<fn(usize) -> Box<dyn AnyLeaf>>,
    /// The lengths of the `Vec`s in the output.
    pub(crate) lengths: Vec<usize>,
}

/// Runs the user's function over new edges and returns the bound graph.
pub(crate) fn bind_graph<I: Inputs, O: Outputs>(
    runtime: &Runtime,
    name: Option<&str>,
    width: usize,
    default: Transport,
    compiled_at: SourceLocation,
    function: impl FnOnce(I) -> O,
) -> BoundGraph {
    let builder = Rc::new(RefCell::new(Builder::on(runtime)));
    let mut ports = InputPorts {
        builder: Rc::clone(&builder),
        width,
        lists: false,
    };
    let scope = Scope::enter(&builder);
    let output = function(I::open(&mut ports));
    drop(scope);
    let mut list = OutputList::default();
    output.list(&mut list);
    let mut graph = builder.take();
    graph.start_tasks();
    graph.resolve_payloads();
    graph.resolve(default);
    graph.note_hints();
    let outputs = outputs(&mut graph, &builder, &list, &compiled_at);
    let names = &graph.names;
    let functions = &graph.functions;
    let actor = |actor: &ActorRef| ActorIr {
        commutes: functions.iter().any(|function| function.actor() == actor),
        ..actor_ir(actor, names)
    };
    let actors = graph.actors.iter().map(actor).collect();
    let line = || format!("{}:{}", compiled_at.file, compiled_at.line);
    let ir = GraphIr {
        name: name.map_or_else(line, str::to_owned),
        actors,
        tasks: graph.tasks,
        collectives: graph.collectives,
        values: graph.values,
        inputs: graph.inputs,
        outputs,
        compiled_at,
    };
    let recipe = RuntimeParts {
        payloads: graph.payloads,
        actors: graph.actors,
        _functions: graph.functions,
        splitters: graph.splitters,
        constants: graph.constants,
        leaves: list.leaves.iter().map(|leaf| leaf.leaf).collect(),
        lengths: list.lengths,
    };
    BoundGraph {
        ir,
        recipe,
        mistakes: graph.mistakes,
        lists: ports.lists,
    }
}

/// Returns the value of each output leaf. A leaf without a value of this graph is a mistake.
fn outputs(
    graph: &mut Builder,
    builder: &Rc<RefCell<Builder>>,
    list: &OutputList,
    compiled_at: &SourceLocation,
) -> Vec<ValueId> {
    let mut outputs = Vec::with_capacity(list.leaves.len());
    for leaf in &list.leaves {
        let (code, message) = match &leaf.source {
            Source::Value {
                builder: other,
                value,
            } if Rc::ptr_eq(other, builder) => {
                outputs.push(*value);
                continue;
            }
            Source::Value { .. } => (Code::MixedGraphs, "an output is an edge of another graph"),
            Source::List(_) => (
                Code::NoOutput,
                "an output is a list of edges made by `list`: return a `Vec` of edges",
            ),
            Source::Constant(_) => (
                Code::NoOutput,
                "an output is a constant, which no execution would change",
            ),
            Source::Broken(diagnostic) => {
                graph.repeat(diagnostic);
                continue;
            }
        };
        graph.mistake(code, message, compiled_at);
    }
    outputs
}

fn actor_ir(actor: &ActorRef, names: &IdMap<ActorId, String>) -> ActorIr {
    let name = names.get(&actor.id());
    ActorIr {
        id: actor.id(),
        name: name.map_or_else(|| actor.name().to_owned(), String::clone),
        type_name: actor.entry().key(),
        lane: actor.lane(),
        home: actor.address(),
        placement: actor.placement().to_string(),
        core: actor.core(),
        pinned: actor.is_pinned(),
        device: actor.device(),
        concurrency: actor.concurrency(),
        commutes: false,
    }
}

#[cfg(test)]
mod tests;
