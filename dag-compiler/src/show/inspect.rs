//! Inspection flags of every program: `--selvedge-graph[=FORMAT]`, `--selvedge-check`, `--selvedge-trace=FILE`.
//!
//! `selvedge_core::init` removes the flags from the command line and puts them into the environment. The variables
//! `SELVEDGE_GRAPH`, `SELVEDGE_CHECK` and `SELVEDGE_TRACE_FILE` may also be set directly. Workers do not see them.

use std::process::exit;

use selvedge_core::flag_answer::answer;
use selvedge_core::flags::{ENV_CHECK, ENV_GRAPH, ENV_TRACE, unknown_variable};

use crate::api::options::Options;
use crate::error::CompileError;
use crate::ir::Plan;
use crate::prove::prove;
use crate::prove::throughput::bound;

/// The number of events that each lane keeps if a flag asks for a trace.
const EVENTS: usize = 1 << 16;

/// The number of executions in a picture of a trace. More could not be told apart.
pub(crate) const PICTURED: usize = 4;

/// The formats in which a graph can be printed.
const FORMATS: &str = "text, dot, mermaid, json, svg, html";

fn asked(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

/// Returns the path of the file for traces of this program's graphs, if a flag asks for a trace.
pub(crate) fn trace_file() -> Option<String> {
    asked(ENV_TRACE)
}

/// Returns the options, with tracing enabled if a flag asks for a trace.
///
/// # Errors
/// A text with the name of an environment variable that looks like one of selvedge but is unknown.
pub(crate) fn options(options: Options) -> Result<Options, String> {
    if let Some(name) = unknown_variable(std::env::vars_os().map(|(name, _)| name)) {
        return Err(format!(
            "the environment has `{name}`, which selvedge does not know: `--selvedge-help` lists what it reads"
        ));
    }
    Ok(match trace_file() {
        Some(_) if options.trace == 0 => options.trace(EVENTS),
        _ => options,
    })
}

/// Prints or checks a compiled graph if a flag asks for it, and then ends the process.
pub(crate) fn inspect(planned: &Result<Plan, CompileError>) {
    let (graph, check) = (asked(ENV_GRAPH), asked(ENV_CHECK));
    if graph.is_none() && check.is_none() {
        return;
    }
    let found = match (planned, graph) {
        (Err(error), _) => Err(error.to_string()),
        (Ok(plan), Some(format)) => print(plan, &format),
        (Ok(plan), None) => Ok(verdict(plan)),
    };
    exit(answer(found))
}

fn print(plan: &Plan, format: &str) -> Result<String, String> {
    match format {
        "text" => Ok(plan.describe()),
        "dot" => Ok(plan.to_dot()),
        "mermaid" => Ok(plan.to_mermaid()),
        "json" => Ok(plan.to_json()),
        "svg" => Ok(plan.to_svg()),
        "html" => Ok(plan.to_html(&[])),
        other => Err(format!("--selvedge-graph={other}: the formats are {FORMATS}")),
    }
}

fn verdict(plan: &Plan) -> String {
    let (tasks, lanes, channels) = (plan.ir.tasks.len(), plan.lanes.len(), plan.channels.len());
    let memory = plan.memory().shared_bytes;
    let proof = match prove(plan).map(|certificate| (certificate.order.len(), certificate.check(plan))) {
        Ok((moments, Ok(()))) => format!("live: {moments} moments in one order, checked"),
        Ok((_, Err(error))) => format!("NOT CERTIFIED: {error}"),
        Err(refutation) => format!("REFUSED: {refutation:?}"),
    };
    let bound = bound(plan).filter(|_| plan.ir.is_measured());
    let period = bound.map(|bound| bound.period_ns / 1e3);
    let period = period
        .map(|us| format!(", at best one execution every {us:.1} us"))
        .unwrap_or_default();
    format!(
        "graph {}: {tasks} tasks, {lanes} lanes, {channels} channels, {memory} B of shared memory\n{proof}{period}\n",
        plan.graph
    )
}
