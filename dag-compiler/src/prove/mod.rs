//! The checker: judges a finished plan, and shares no code with the stages that made it.
//!
//! Two questions. Is every lane's program *well-formed* (`form`): all operations of every task there once, in their
//! order, by channels that fit? And is it *live* (`wiring`, `machine`, `cycle`): run over counters instead of values, with bounded
//! channels, does every lane come to the end?
//!
//! - `LIVE-1` one run decides for all interleavings: a lane has one next step, and a step that can be taken stays
//!   possible until it is taken (a Kahn network, bounded).
//! - `LIVE-2` the number of slots does not matter. Every channel carries one message per execution, so a plan is a
//!   marked graph in which waiting for a free slot, or for the lane's own last execution, has a token. Such a graph
//!   is live if and only if no circuit is without a token (Commoner, Holt, Even, Pnueli 1971), so what is live with
//!   few slots is live with more, and what is not live is not live with any number.
//! - `LIVE-3` a lane that cannot move waits for exactly one other, so stuck lanes contain a cycle.
//!
//! O(operations + edges) for each of `slots + 1` executions.

mod form;

mod wiring;

mod machine;

mod cycle;

use std::fmt;

use crate::ir::{GraphIr, Operation, Plan, ValueId, Writer};

/// Slots tried at most (`LIVE-2`); the second shows that indices wrap.
const SLOTS_TRIED: u32 = 2;

/// Evidence that a plan was run to the end: what was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Executions run: one more than slots.
    pub executions: u64,
    /// Steps taken in all, submissions and collected outputs among them.
    pub steps: u64,
    /// Slots of each channel in that run.
    pub slots: u32,
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

/// A party as people call it.
struct Name(Writer);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Writer::Submit => f.write_str("the submission"),
            Writer::Lane(lane) => write!(f, "lane {}", lane.0),
        }
    }
}

impl Deadlock {
    /// The cycle in words: lane, operation, task and value of each link.
    pub fn describe(&self, graph: &GraphIr) -> String {
        let link = |blocked: &Blocked| {
            let (party, other) = (Name(blocked.party), Name(blocked.waits_for));
            let value = graph.value_name(blocked.value);
            let at = match blocked.operation {
                Some(operation) => {
                    let label = graph.task(operation.task).map_or("?", |task| task.label.as_str());
                    format!("{} of `{label}`", operation.kind)
                }
                None => "the graph's input or output".to_owned(),
            };
            format!("{party} is at {at} and waits for {other} over `{value}`")
        };
        self.cycle.iter().map(link).collect::<Vec<_>>().join("; ")
    }
}

/// Checks that a plan says what its graph says, and that no lane can wait for ever (GRAPH-24).
///
/// # Errors
/// [`Refutation::Malformed`] names the first thing out of place, [`Refutation::Deadlock`] the cycle.
pub fn prove(plan: &Plan) -> Result<Certificate, Refutation> {
    form::check(plan).map_err(Refutation::Malformed)?;
    machine::run(plan, plan.settings.slots.clamp(1, SLOTS_TRIED)).map_err(Refutation::Deadlock)
}
