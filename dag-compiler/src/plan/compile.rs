//! The pipeline: turns a bound graph into the plan that every process receives.

use std::fmt::Write;

use crate::diagnostic::{Code, Diagnostic};
use crate::error::CompileError;
use crate::ir::{ChannelKind, GraphIr, LaneProgram, OperationGraph, Plan, Settings, TensorPath};
use crate::plan::lanes;
use crate::plan::lower::lower;
use crate::plan::order::{Order, order};
use crate::plan::place::{groups, place};
use crate::plan::rendezvous::ignored;
use crate::plan::schedule::schedule;
use crate::plan::tensor_paths::tensor_paths;
use crate::plan::validate::validate;
use crate::prove::forecast::forecast;
use crate::prove::throughput::{bound, smallest_slots};
use crate::prove::{Certificate, Refutation, prove};

/// Compiles a graph. The function is pure: it uses no actors, no clock and no addresses, so equal graphs give equal
/// plans.
///
/// # Errors
/// [`CompileError`] with every mistake found.
pub fn plan(graph: GraphIr, settings: Settings) -> Result<Plan, CompileError> {
    let stages = stages(graph, settings)?;
    Ok(stages.plan)
}

/// The results of all stages.
struct Stages {
    operations: OperationGraph,
    order: Order,
    plan: Plan,
    certificate: Certificate,
}

fn stages(mut graph: GraphIr, settings: Settings) -> Result<Stages, CompileError> {
    let mistakes = validate(&graph);
    if !mistakes.is_empty() {
        return Err(CompileError {
            diagnostics: mistakes,
        });
    }
    let mut notes = lanes::assign(&mut graph, &settings);
    notes.extend(ignored(&graph));
    let operations = lower(&graph);
    let cyclic = || {
        Diagnostic::new(
            Code::Internal,
            "the operations have a cycle",
            graph.compiled_at.clone(),
        )
    };
    let order = order(&graph, &operations, settings.overlap).ok_or_else(cyclic)?;
    let schedule = schedule(&graph, &operations, &order, settings.overlap);
    let mut placement = place(&graph, &settings);
    let lanes = schedule
        .lanes
        .into_iter()
        .map(|lane| LaneProgram {
            address: lane.address,
            values: placement.values.remove(&lane.address).unwrap_or_default(),
            steps: lane.operations,
            original: lane.original,
        })
        .collect();
    let mut plan = Plan {
        graph: graph.name.clone(),
        settings,
        channels: placement.channels,
        lanes,
        communicators: groups(&graph),
        tensor_paths: tensor_paths(&graph),
        ir: graph,
        notes,
    };
    if let Some(far) = device_over_hosts(&plan) {
        return Err(far.into());
    }
    let certificate = prove(&plan).map_err(|refutation| refused(&plan, &refutation))?;
    if plan.settings.auto_slots {
        choose_slots(&mut plan);
    }
    Ok(Stages {
        operations,
        order,
        plan,
        certificate,
    })
}

/// Reports a value with tensors of a device that is read on another host, at the line of its maker.
fn device_over_hosts(plan: &Plan) -> Option<Diagnostic> {
    let far = plan.tensor_paths.iter().find(|it| it.path == TensorPath::Nccl)?;
    let task = plan.ir.maker(far.value).and_then(|task| plan.ir.task(task));
    let location = task.map_or(&plan.ir.compiled_at, |task| &task.bound_at);
    let message = format!(
        "`{}` carries tensors of a device, and is read on another host",
        plan.ir.value_name(far.value)
    );
    Some(Diagnostic::new(Code::OtherHost, message, location.clone()))
}

/// Chooses the fewest slots that reach the throughput of `max_inflight` slots. Liveness does not depend on the number
/// of slots.
fn choose_slots(plan: &mut Plan) {
    let slots = smallest_slots(plan);
    plan.settings.slots = slots;
    let buffered = plan
        .channels
        .iter_mut()
        .filter(|channel| channel.kind != ChannelKind::Local);
    buffered.for_each(|channel| channel.slots = plan.ir.slots_of(channel.value, slots));
    let most = plan.settings.max_inflight;
    plan.notes.push(format!(
        "{slots} slots in each channel reach the throughput of {most}"
    ));
}

/// Returns the result of every stage as text: the operations with the operations that each one waits for, the global
/// order, the plan, the verdict of the checker, and the possible throughput.
///
/// # Errors
/// The errors of [`plan`].
pub fn explain(graph: &GraphIr, settings: &Settings) -> Result<String, CompileError> {
    let Stages {
        operations,
        order,
        plan,
        certificate,
    } = stages(graph.clone(), settings.clone())?;
    let order: Vec<String> = order.operations.iter().map(u32::to_string).collect();
    let (operations, order) = (listed(&operations, &plan.ir), order.join(" "));
    Ok(format!(
        "{operations}\norder\n  {order}\n\n{}{}",
        plan.describe(),
        proof(&plan, &certificate)
    ))
}

/// Returns the text of [`explain`], without the global order, for a plan that was made or changed elsewhere.
///
/// # Errors
/// The reason why the plan is refused. For a deadlock, the message draws the cycle.
pub fn explain_plan(plan: &Plan) -> Result<String, CompileError> {
    let certificate = prove(plan).map_err(|refutation| refused(plan, &refutation))?;
    let operations = listed(&lower(&plan.ir), &plan.ir);
    Ok(format!(
        "{operations}\n{}{}",
        plan.describe(),
        proof(plan, &certificate)
    ))
}

fn listed(operations: &OperationGraph, graph: &GraphIr) -> String {
    let mut waits: Vec<Vec<String>> = vec![Vec::new(); operations.operations.len()];
    for edge in &operations.edges {
        if let Some(waits) = waits.get_mut(edge.to as usize) {
            let kind = format!("{:?}", edge.kind).to_lowercase();
            waits.push(format!("{} ({kind})", edge.from));
        }
    }
    let mut text = String::from("operations\n");
    for (index, (operation, waits)) in operations.operations.iter().zip(waits).enumerate() {
        let label = graph.label(operation.task);
        let after = if waits.is_empty() {
            String::new()
        } else {
            format!(" after {}", waits.join(", "))
        };
        let _ = writeln!(text, "  {index:>3} {} {label}{after}", operation.kind);
    }
    text
}

fn proof(plan: &Plan, certificate: &Certificate) -> String {
    let checked = certificate.check(plan);
    let checked = checked.map_or_else(|error| error, |()| "checked against the plan".to_owned());
    let moments = certificate.order.len();
    let mut text = format!(
        "\nproof\n  a linear order of {moments} moments of which every lane is a projection; {checked}\n"
    );
    if let (Some(bound), Some(forecast)) = (bound(plan), forecast(plan)) {
        let makespan = forecast.makespan_ns as f64 / 1e3;
        let _ = writeln!(text, "\nthroughput\n  {}", bound.describe(plan, makespan));
    }
    text
}

/// Turns a refutation into a diagnostic at the user's line. For a deadlock, this is the line of the task where the
/// cycle begins.
pub fn refused(plan: &Plan, refutation: &Refutation) -> Diagnostic {
    let graph = &plan.ir;
    match refutation {
        Refutation::Malformed(what) => {
            Diagnostic::new(Code::Internal, what.as_str(), graph.compiled_at.clone())
        }
        Refutation::Deadlock(deadlock) => {
            let mut tasks = deadlock
                .cycle
                .iter()
                .filter_map(|blocked| graph.task(blocked.operation?.task));
            let location = tasks.next().map_or(&graph.compiled_at, |task| &task.bound_at);
            let message = format!("the schedule would wait for ever:\n{}", deadlock.draw(plan));
            Diagnostic::new(Code::Deadlock, message.trim_end(), location.clone())
                .labelled("the circle begins here")
        }
    }
}
