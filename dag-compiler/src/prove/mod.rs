//! The checker: judges a finished plan from any source, and shares no code with the stages that make plans.
//!
//! The checker answers two questions. Is every lane's program *well-formed* (`form`): are all operations of every task
//! there once, in their order, with channels that fit? And is the plan *live* (`marked_graph`, `live`): can no lane wait for
//! ever?
//!
//! - `LIVE-1` every channel carries one message per execution, so a plan is a marked graph. Steps that happen at one
//!   moment are one event. An event of execution i waits for events of execution i, or of i - 1 (a lane's own last
//!   step), or of i - K (a slot that has to be free).
//! - `LIVE-2` such a graph is live if and only if every circuit has a token (Commoner, Holt, Even, Pnueli 1971). Slots
//!   have tokens, so a plan that is live with one slot is live with any number of slots, and a plan that is not live
//!   with one slot is not live with any number.
//! - `LIVE-3` the edges without a token have no circuit exactly if the events have a linear order of which every lane's
//!   program is a projection. That order is the [`Certificate`]. It can be checked in one pass (`certificate`), without
//!   knowledge of how it was found.
//! - `LIVE-4` a rendezvous is one event of writer and readers. If receives are only posted (`Settings::overlap`), a
//!   transfer waits for both sides, work waits for the transfer, and the transfers of a lane run in their order, as the
//!   transfers of a device's stream do. An implementation that buffers more than that adds behaviours and removes none.
//!
//! O(operations + edges).

mod form;

mod marked_graph;

mod live;

mod certificate;

pub mod forecast;

pub mod repair;

pub mod throughput;

use crate::ir::{CollectiveId, GraphIr, Operation, Plan, ValueId, Writer};
use marked_graph::MarkedGraph;

/// One place in the order of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A step of a lane.
    Step(Operation),
    /// The completion of a collective whose parts are only posted.
    Completion(CollectiveId),
}

/// The evidence that a plan is live: a linear order of all steps of one execution in which no step waits for a later
/// one (`LIVE-3`). [`check`](Certificate::check) checks it against a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The moments in their order; steps of one event stand together.
    pub order: Vec<Moment>,
}

/// One link of a deadlock: the party that cannot move, its operation, and the party that it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The party that cannot move: a lane, or the submission.
    pub party: Writer,
    /// The operation that the party cannot take; `None` if an input is submitted or an output collected.
    pub operation: Option<Operation>,
    /// The value that the party waits to read, or whose readers it waits for.
    pub value: ValueId,
    /// The party that would have to move.
    pub waits_for: Writer,
}

/// A cycle of lanes that wait for each other, each for the next and the last for the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// The links of the cycle.
    pub cycle: Vec<Blocked>,
}

/// The reason why a plan was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refutation {
    /// A program that no graph lowers to; the text says why.
    Malformed(String),
    /// Lanes that would wait for ever.
    Deadlock(Deadlock),
}

fn name(party: Writer) -> String {
    match party {
        Writer::Submit => "the submission".to_owned(),
        Writer::Lane(place) => format!("lane {}", place.lane.0),
    }
}

impl Deadlock {
    /// The cycle in words: lane, operation, task and value of each link.
    pub fn describe(&self, graph: &GraphIr) -> String {
        let link = |blocked: &Blocked| {
            let (party, other) = (name(blocked.party), name(blocked.waits_for));
            let value = graph.value_name(blocked.value);
            let at = match blocked.operation {
                Some(operation) => {
                    let label = graph.label(operation.task);
                    format!("{} of `{label}`", operation.kind)
                }
                None => "the graph's input or output".to_owned(),
            };
            format!("{party} is at {at} and waits for {other} over `{value}`")
        };
        self.cycle.iter().map(link).collect::<Vec<_>>().join("; ")
    }
}

/// Checks that a plan matches its graph, and that no lane can wait for ever.
///
/// # Errors
/// [`Refutation::Malformed`] names the first mistake, [`Refutation::Deadlock`] the cycle.
pub fn prove(plan: &Plan) -> Result<Certificate, Refutation> {
    form::check(plan).map_err(Refutation::Malformed)?;
    let graph =
        MarkedGraph::of(plan).ok_or_else(|| Refutation::Malformed("steps without a task".to_owned()))?;
    let order = live::linear(&graph).map_err(Refutation::Deadlock)?;
    Ok(Certificate { order })
}
