//! The pipeline: from what was bound to what is sent to every process.

use crate::diagnostic::{Code, Diagnostic};
use crate::error::CompileError;
use crate::ir::{GraphIr, LaneProgram, Plan, Settings};
use crate::lower::lower;
use crate::order::order;
use crate::place::place;
use crate::prove::prove;
use crate::schedule::schedule;
use crate::validate::validate;

/// Compiles a graph. A pure function: no actors, no clock, no addresses; equal graphs give equal plans.
///
/// # Errors
/// [`CompileError`] with every mistake found.
pub fn plan(graph: GraphIr, settings: Settings) -> Result<Plan, CompileError> {
    let mistakes = validate(&graph);
    if !mistakes.is_empty() {
        return Err(CompileError {
            diagnostics: mistakes,
        });
    }
    let operations = lower(&graph);
    let cyclic = || {
        Diagnostic::new(
            Code::Internal,
            "the operations have a cycle",
            graph.compiled_at.clone(),
        )
    };
    let order = order(&operations).ok_or_else(cyclic)?;
    let schedule = schedule(&graph, &operations, &order);
    let mut placement = place(&graph, &settings);
    let lanes = schedule
        .lanes
        .into_iter()
        .map(|lane| LaneProgram {
            lane: lane.lane,
            process: lane.process,
            values: placement.values.remove(&lane.lane).unwrap_or_default(),
            steps: lane.operations,
        })
        .collect();
    let plan = Plan {
        graph: graph.name.clone(),
        settings,
        channels: placement.channels,
        lanes,
        ir: graph,
    };
    match prove(&plan) {
        Ok(_) => Ok(plan),
        Err(deadlock) => {
            let message = format!(
                "the schedule would wait for ever: {}",
                deadlock.describe(&plan.ir)
            );
            Err(Diagnostic::new(Code::Deadlock, message, plan.ir.compiled_at.clone()).into())
        }
    }
}
