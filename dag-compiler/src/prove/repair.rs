//! Repairs: changes that make a dead plan live, found by trial.

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
        /// The step to take earlier.
        earlier: Operation,
        /// The step before which `earlier` is taken.
        later: Operation,
    },
    /// Post the receives of rendezvous instead of waiting in them (`Options::overlap`). The transfers of a lane still
    /// run in their order, beside its other work.
    Overlap,
}

/// The largest number of links of a cycle for which a repair is tried. Each trial proves a changed copy of the plan.
const TRIED_MAX: usize = 16;

/// The repairs of a dead plan that were tried and that work. At most one for each of the first 16 links of the cycle, and
/// overlap, are tried.
pub fn repairs(plan: &Plan, deadlock: &Deadlock) -> Vec<Repair> {
    let mut found = Vec::new();
    for (index, blocked) in deadlock.cycle.iter().enumerate().take(TRIED_MAX) {
        // A lane that waits for this lane needs a step that this lane would take later: take that step first.
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

/// Tries to take, on the lane of `blocked`, the task that `waiting` needs before the step at which the lane stands.
fn exchange(plan: &Plan, blocked: &Blocked, waiting: &Blocked) -> Option<Repair> {
    let (Writer::Lane(place), Some(later)) = (blocked.party, blocked.operation) else {
        return None;
    };
    let mut changed = plan.clone();
    let program = changed
        .lanes
        .iter_mut()
        .find(|program| program.address == place)?;
    let here = program.steps.iter().position(|step| *step == later)?;
    let waiting_step = waiting.operation?;
    let maker = plan.ir.maker(waiting.value);
    // A WRITE waits for this lane's READ; any other operation waits for the task that makes its value.
    let needed = |step: &Operation| match waiting_step.kind {
        OpKind::Write => plan.ir.read_by(*step) == Some(waiting.value),
        _ => maker == Some(step.task),
    };
    // All needed steps that stand behind move to the front, in their order.
    let behind = program.steps.split_off(here);
    let (first, rest): (Vec<Operation>, Vec<Operation>) = behind.into_iter().partition(needed);
    let earlier = *first.first()?;
    if earlier == later {
        return None;
    }
    program.steps.extend(first);
    program.steps.extend(rest);
    prove(&changed).is_ok().then_some(Repair::Before {
        lane: place.lane,
        earlier,
        later,
    })
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
    /// Draws the cycle as text: the step at which each party stands, the line where its task was bound, the value that
    /// it waits for, and the party that would have to move; then the repairs that work.
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
