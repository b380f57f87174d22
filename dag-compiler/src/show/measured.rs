//! What lanes did, as a picture: a box per computation, a bar where one waited, an arrow per value that crossed lanes.

use std::collections::{BTreeMap, BTreeSet};

use super::canvas::{At, Canvas};
use super::view::{Measured, Task, View};
use crate::ir::Plan;
use crate::run::trace::Event;

/// Waiting for an input.
const READING: &str = "#bbb";
/// Waiting for other ranks of a collective, or for room.
const MEETING: &str = "#e8a0a0";

impl Plan {
    /// What [`Graph::trace`](crate::Graph::trace) has returned, as SVG; `last` executions of it, so that boxes can be told apart.
    /// Lanes that did nothing have no row.
    pub fn trace_svg(&self, events: &[Event], last: usize) -> String {
        let executions: BTreeSet<u64> = events.iter().map(|event| event.execution).collect();
        let from = executions.iter().rev().nth(last.saturating_sub(1)).copied();
        let shown: Vec<Event> = events
            .iter()
            .filter(|event| Some(event.execution) >= from)
            .cloned()
            .collect();
        let view = View::of(self, &shown);
        let busy: BTreeSet<usize> = view.measured.iter().map(|event| event.row).collect();
        let row_of: BTreeMap<usize, usize> = busy.iter().copied().zip(0..).collect();
        let rows = busy.iter().filter_map(|row| view.rows.get(*row));
        let rows: Vec<String> = rows.map(|row| row.actors.join(", ")).collect();
        // The first READ lasts from the end of what came before it, which may be long ago.
        let begin = view.measured.iter().filter(|event| event.operation == "COMPUTE");
        let begin_us = begin.map(|event| event.start_us).fold(f64::INFINITY, f64::min);
        let begin_us = if begin_us.is_finite() { begin_us } else { 0.0 };
        let end_us = view
            .measured
            .iter()
            .map(|event| event.end_us)
            .fold(begin_us, f64::max);

        let mut canvas = Canvas::new(&view.graph, &rows, end_us - begin_us);
        let at = |event: &Measured, us: f64| At {
            row: row_of.get(&event.row).copied().unwrap_or_default(),
            us: (us - begin_us).max(0.0),
        };
        for event in view.measured.iter().filter(|event| event.end_us > begin_us) {
            let Some(task) = view.tasks.get(event.task as usize) else {
                continue;
            };
            let (from, until) = (at(event, event.start_us), at(event, event.end_us).us);
            let hint = format!(
                "{} of {}, execution {}: {:.1} µs",
                event.operation,
                task.label,
                event.execution,
                event.end_us - event.start_us
            );
            match event.operation.as_str() {
                "COMPUTE" => canvas.work(from, until, view.colour(task), &task.method, &hint),
                "READ" => canvas.waiting(from, until, READING, &hint),
                _ => canvas.waiting(from, until, MEETING, &hint),
            }
        }
        for (write, compute) in crossings(&view) {
            canvas.arrow(at(write, write.end_us), at(compute, compute.start_us));
        }
        let executions = executions.len().min(last);
        let took = (end_us - begin_us).max(0.0);
        canvas.finish(&format!(
            "{executions} executions in {took:.1} µs; grey: waiting for an input, red: for other ranks"
        ))
    }
}

/// From the WRITE of each value to each COMPUTE on another lane that reads it, in the same execution.
fn crossings(view: &View) -> Vec<(&Measured, &Measured)> {
    let of = |operation: &str| -> BTreeMap<(u32, u64), &Measured> {
        let those = view.measured.iter().filter(|event| event.operation == operation);
        those
            .map(|event| ((event.task, event.execution), event))
            .collect()
    };
    let (writes, computes) = (of("WRITE"), of("COMPUTE"));
    let across = view.arrows.iter().filter(|arrow| arrow.across);
    let ends = across.flat_map(|arrow| {
        let makes = writes.range((arrow.from, 0)..=(arrow.from, u64::MAX));
        makes.filter_map(|((_, execution), write)| Some((*write, *computes.get(&(arrow.to, *execution))?)))
    });
    ends.collect()
}

impl View {
    /// The number of a task's actor.
    pub(super) fn colour(&self, task: &Task) -> usize {
        let mut actors = self.rows.iter().flat_map(|row| &row.actors);
        actors.position(|actor| *actor == task.actor).unwrap_or_default()
    }
}
