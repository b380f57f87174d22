//! The checker: judges a finished plan, ours or anybody's, and shares no code with the stages that made it.
//!
//! Two questions. Is every lane's program *well-formed* (`form`): all operations of every task there once, in their
//! order, by channels that fit? And is it *live* (`events`, `live`): can no lane wait for ever?
//!
//! - `LIVE-1` every channel carries one message per execution, so a plan is a marked graph: steps that happen at one
//!   moment are an event, and an event of execution i waits for others of execution i, or i - 1 (a lane's own last
//!   step), or i - K (a slot that has to be free).
//! - `LIVE-2` such a graph is live if and only if no circuit is without a token (Commoner, Holt, Even, Pnueli 1971). Slots
//!   have tokens, so what is live with one slot is live with any number, and what is not live is not live with any.
//! - `LIVE-3` the edges without a token have no circuit exactly if the events have a linear order of which every lane's
//!   program is a projection. That order is the [`Certificate`], and whoever doubts it checks it in one pass
//!   (`certificate`), without having to know how it was found.
//! - `LIVE-4` a rendezvous is one event of writer and readers. Where receives are only posted (`Settings::overlap`), a
//!   transfer waits for both sides, work waits for the transfer, and the transfers of a lane run in their order, as those
//!   of a device's stream do. What buffers more than that adds behaviours and takes none.
//!
//! O(operations + edges).

mod form;

mod events;

mod live;

mod certificate;

pub mod forecast;

pub mod repair;

pub mod throughput;

use crate::ir::{CollectiveId, GraphIr, Operation, Plan, ValueId, Writer};
use events::Events;

/// One place of a certificate's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A step of a lane.
    Step(Operation),
    /// The end of a collective whose parts are only posted.
    Completion(CollectiveId),
}

/// Evidence that a plan is live: a linear order of all steps of one execution in which nothing waits for what comes
/// later (`LIVE-3`). [`check`](Certificate::check) holds it against a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The moments; steps of one event stand together.
    pub order: Vec<Moment>,
}

/// One link of a deadlock: who cannot move, at what, and for whom it waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The lane, or whoever submits.
    pub party: Writer,
    /// The operation it cannot take; `None` where an input is submitted or an output collected.
    pub operation: Option<Operation>,
    /// The value it waits to read, or to have read.
    pub value: ValueId,
    /// Who would have to move.
    pub waits_for: Writer,
}

/// A cycle of lanes that wait for each other, each for the next and the last for the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// The links of the cycle.
    pub cycle: Vec<Blocked>,
}

/// Why a plan was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refutation {
    /// A program that no graph lowers to, in words.
    Malformed(String),
    /// Lanes that would wait for ever.
    Deadlock(Deadlock),
}

fn name(party: Writer) -> String {
    match party {
        Writer::Submit => "the submission".to_owned(),
        Writer::Lane(lane) => format!("lane {}", lane.0),
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

/// Checks that a plan says what its graph says, and that no lane can wait for ever.
///
/// # Errors
/// [`Refutation::Malformed`] names the first thing out of place, [`Refutation::Deadlock`] the cycle.
pub fn prove(plan: &Plan) -> Result<Certificate, Refutation> {
    form::check(plan).map_err(Refutation::Malformed)?;
    let order = live::linear(&Events::of(plan)).map_err(Refutation::Deadlock)?;
    Ok(Certificate { order })
}
