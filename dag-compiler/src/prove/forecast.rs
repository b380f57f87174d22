//! Forecasts: the planned time line of any live plan, from the known durations of its steps.

use petgraph::Direction::Incoming;
use petgraph::visit::EdgeRef;

use super::live;
use super::marked_graph::MarkedGraph;
use crate::ir::{Operation, Plan};

/// A step on the planned time line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The lane, as its position in [`Plan::lanes`].
    pub lane: usize,
    /// The step.
    pub operation: Operation,
    /// The time from the submission to the step's begin, in nanoseconds. A step that waits begins when its wait ends.
    pub start_ns: u64,
    /// The time from the submission to the step's end, in nanoseconds.
    pub end_ns: u64,
}

/// The planned time line of one execution that runs alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Forecast {
    /// The steps, lane by lane, each lane in its order.
    pub steps: Vec<Planned>,
    /// The time from the submission to the collection of the last output, in nanoseconds.
    pub makespan_ns: u64,
}

impl Forecast {
    /// The fraction of the time from the first work to the last in which lanes that have work are idle, over all such
    /// lanes: the bubble of a pipeline. 0 for a plan without work.
    pub fn bubble(&self) -> f64 {
        let work = || self.steps.iter().filter(|step| step.operation.kind.is_work());
        let lanes: selvedge_core::IdSet<usize> = work().map(|step| step.lane).collect();
        let begin = work().map(|step| step.start_ns).min().unwrap_or_default();
        let end = work().map(|step| step.end_ns).max().unwrap_or_default();
        let busy: u128 = work()
            .map(|step| u128::from(step.end_ns.saturating_sub(step.start_ns)))
            .sum();
        let whole = u128::from(end - begin) * lanes.len() as u128;
        if whole == 0 {
            0.0
        } else {
            1.0 - busy as f64 / whole as f64
        }
    }
}

/// The time line of a plan; `None` for one that is not well-formed or not live. O(steps + edges).
pub fn forecast(plan: &Plan) -> Option<Forecast> {
    super::form::check(plan).ok()?;
    let graph = MarkedGraph::of(plan)?;
    let waits = graph.waits();
    let order = live::events_in_order(&graph, &waits).ok()?;
    let durations = graph.durations_ns(plan);
    let mut begins = vec![0u64; graph.nodes.len()];
    let mut ends: Vec<u64> = vec![0; graph.nodes.len()];
    for event in order {
        let mut begin = 0;
        for wait in waits.edges_directed(event.into(), Incoming) {
            let hop = graph.edge(*wait.weight())?.why.hop_ns();
            let arrives = ends.get(wait.source().index())?.saturating_add(hop);
            begin = arrives.max(begin);
        }
        *begins.get_mut(event as usize)? = begin;
        *ends.get_mut(event as usize)? = begin.saturating_add(*durations.get(event as usize)?);
    }
    let mut forecast = Forecast::default();
    for (lane, range) in graph.lanes.iter().enumerate() {
        for node in range.clone() {
            let event = graph.event_of(node) as usize;
            let (start_ns, end_ns) = (*begins.get(event)?, *ends.get(event)?);
            forecast.makespan_ns = forecast.makespan_ns.max(end_ns);
            if let Some(operation) = graph.node(node)?.operation {
                forecast.steps.push(Planned {
                    lane,
                    operation,
                    start_ns,
                    end_ns,
                });
            }
        }
    }
    Some(forecast)
}
