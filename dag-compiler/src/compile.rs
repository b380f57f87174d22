//! The pipeline: from what was bound to what is sent to every process.

use std::fmt::Write;

use crate::diagnostic::{Code, Diagnostic};
use crate::error::CompileError;
use crate::ir::{GraphIr, LaneProgram, Plan, Settings};
use crate::lower::lower;
use crate::order::order;
use crate::place::place;
use crate::prove::{Certificate, Refutation, prove};
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
        Err(refutation) => Err(refused(&plan.ir, &refutation).into()),
    }
}

/// Every stage's result in words: operations with what each waits for, the global order, the plan, and what the
/// checker ran.
///
/// # Errors
/// As [`plan`].
pub fn explain(graph: &GraphIr, settings: &Settings) -> Result<String, CompileError> {
    let plan = plan(graph.clone(), settings.clone())?;
    let operations = lower(graph);
    let mut waits: Vec<Vec<String>> = vec![Vec::new(); operations.operations.len()];
    for edge in &operations.edges {
        if let Some(waits) = waits.get_mut(edge.to as usize) {
            waits.push(format!(
                "{} ({})",
                edge.from,
                format!("{:?}", edge.kind).to_lowercase()
            ));
        }
    }
    let mut text = String::from("operations\n");
    for (index, (operation, waits)) in operations.operations.iter().zip(waits).enumerate() {
        let label = graph.task(operation.task).map_or("?", |task| task.label.as_str());
        let after = if waits.is_empty() {
            String::new()
        } else {
            format!(" after {}", waits.join(", "))
        };
        let _ = writeln!(text, "  {index:>3} {} {label}{after}", operation.kind);
    }
    let order: Vec<String> = order(&operations)
        .unwrap_or_default()
        .iter()
        .map(u32::to_string)
        .collect();
    let _ = writeln!(text, "\norder\n  {}\n\n{}", order.join(" "), plan.describe());
    if let Ok(Certificate {
        executions,
        steps,
        slots,
    }) = prove(&plan)
    {
        let _ = writeln!(
            text,
            "proof\n  {steps} steps of {executions} executions, {slots} slots: every lane came to the end"
        );
    }
    Ok(text)
}

/// A refutation at the user's line: that of the task where the cycle begins.
fn refused(graph: &GraphIr, refutation: &Refutation) -> Diagnostic {
    match refutation {
        Refutation::Malformed(what) => {
            Diagnostic::new(Code::Internal, what.as_str(), graph.compiled_at.clone())
        }
        Refutation::Deadlock(deadlock) => {
            let task = deadlock
                .cycle
                .iter()
                .find_map(|blocked| graph.task(blocked.operation?.task));
            let location = task.map_or(&graph.compiled_at, |task| &task.bound_at);
            let message = format!("the schedule would wait for ever: {}", deadlock.describe(graph));
            Diagnostic::new(Code::Deadlock, message, location.clone())
        }
    }
}
