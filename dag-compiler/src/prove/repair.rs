//! What would make a dead plan live: changes that were tried, not guessed.

use std::fmt::Write;

use super::{Blocked, Deadlock, prove};
use crate::ir::{OpKind, Operation, Plan, Writer};

/// A change after which the plan is live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repair {
    /// On a lane, take one step before another.
    Before {
        /// The lane.
        lane: selvedge_core::LaneId,
        /// What to take earlier.
        earlier: Operation,
        /// Before what.
        later: Operation,
    },
    /// Post the receives of rendezvous instead of waiting in them (`Options::overlap`): the transfers of a lane still go in
    /// their order, beside its other work.
    Overlap,
}

/// The repairs of a dead plan that were tried and found to work.
pub fn repairs(plan: &Plan, deadlock: &Deadlock) -> Vec<Repair> {
    let mut found = Vec::new();
    for (index, blocked) in deadlock.cycle.iter().enumerate() {
        // Whoever waits for this lane needs what it would do later: do that first.
        let before = deadlock
            .cycle
            .get((index + deadlock.cycle.len() - 1) % deadlock.cycle.len());
        if let Some(repair) = before.and_then(|waiting| exchange(plan, blocked, waiting)) {
            found.push(repair);
        }
    }
    let overlapped = Plan {
        settings: crate::ir::Settings {
            overlap: true,
            ..plan.settings.clone()
        },
        ..plan.clone()
    };
    if !plan.settings.overlap && prove(&overlapped).is_ok() {
        found.push(Repair::Overlap);
    }
    found
}

/// On the lane of `blocked`, the task that `waiting` needs is taken before the step where the lane stands.
fn exchange(plan: &Plan, blocked: &Blocked, waiting: &Blocked) -> Option<Repair> {
    let (Writer::Lane(lane), Some(later)) = (blocked.party, blocked.operation) else {
        return None;
    };
    let mut changed = plan.clone();
    let program = changed.lanes.iter_mut().find(|program| program.lane == lane)?;
    let here = program.steps.iter().position(|step| *step == later)?;
    let waiting_step = waiting.operation?;
    let maker = plan.ir.maker(waiting.value);
    // A WRITE waits for our READ, anything else for the task that makes its value.
    let needed = |step: &Operation| match waiting_step.kind {
        OpKind::Write => plan.ir.read_by(*step) == Some(waiting.value),
        _ => maker == Some(step.task),
    };
    // Whatever of that stands behind moves to the front, in its order.
    let behind = program.steps.split_off(here);
    let (first, rest): (Vec<Operation>, Vec<Operation>) = behind.into_iter().partition(needed);
    let earlier = *first.first()?;
    if earlier == later {
        return None;
    }
    program.steps.extend(first);
    program.steps.extend(rest);
    prove(&changed)
        .is_ok()
        .then_some(Repair::Before { lane, earlier, later })
}

impl Repair {
    /// The repair in words.
    pub fn describe(&self, plan: &Plan) -> String {
        let step =
            |operation: &Operation| format!("{} of `{}`", operation.kind, plan.ir.label(operation.task));
        match self {
            Repair::Before { lane, earlier, later } => {
                format!(
                    "on lane {}, take {} before {}",
                    lane.0,
                    step(earlier),
                    step(later)
                )
            }
            Repair::Overlap => {
                "post receives early (`Options::overlap(true)`), so that no lane waits in one".to_owned()
            }
        }
    }
}

impl Deadlock {
    /// The circle as a drawing: who stands where, bound at which line, for which value, and who would have to move; then
    /// the repairs that work.
    pub fn draw(&self, plan: &Plan) -> String {
        let mut text = String::new();
        for blocked in &self.cycle {
            let actor = blocked
                .operation
                .and_then(|it| plan.ir.task(it.task))
                .and_then(|it| plan.ir.actor(it.actor));
            let actor = actor
                .map(|actor| format!(" (actor `{}`)", actor.name))
                .unwrap_or_default();
            let at = match blocked
                .operation
                .and_then(|it| Some((it, plan.ir.task(it.task)?)))
            {
                Some((operation, task)) => format!(
                    "{} of `{}`, bound at {}",
                    operation.kind, task.label, task.bound_at
                ),
                None => "an end of the graph".to_owned(),
            };
            let value = plan.ir.value_name(blocked.value);
            let _ = write!(
                text,
                "{}{actor} stands at {at}\n  | waits over `{value}` for\n",
                super::name(blocked.party)
            );
        }
        let first = self
            .cycle
            .first()
            .map(|blocked| super::name(blocked.party))
            .unwrap_or_default();
        let _ = writeln!(text, "{first}, where this began");
        let repairs = repairs(plan, self);
        if repairs.is_empty() {
            text.push_str("no single change was found that resolves it\n");
        }
        for repair in repairs {
            let _ = writeln!(text, "repair: {}", repair.describe(plan));
        }
        text
    }
}
