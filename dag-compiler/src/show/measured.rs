//! Traces as pictures: a box per computation, a bar per wait, an arrow per value that crossed lanes.

use std::collections::{BTreeMap, BTreeSet};

use super::canvas::{At, Canvas};
use super::handover::handovers;
use super::view::{Task, View};
use crate::ir::Plan;
use crate::run::trace::Event;

/// The colour of waiting for an input.
const READING: &str = "#bbb";
/// The colour of waiting for other ranks of a collective, or for room.
const MEETING: &str = "#e8a0a0";

impl Plan {
    /// Returns events of [`Graph::trace`](crate::Graph::trace) as SVG. Only the last `last` executions are drawn, so
    /// that boxes can be told apart. Lanes without events have no row.
    pub fn trace_svg(&self, events: &[Event], last: usize) -> String {
        let executions: BTreeSet<u64> = events.iter().map(|event| event.execution).collect();
        let pictured: BTreeSet<u64> = executions.into_iter().rev().take(last).collect();
        let shown = events.iter().filter(|event| pictured.contains(&event.execution));
        let shown: Vec<Event> = shown.cloned().collect();
        let view = View::of(self, &[]);
        let task_of = |event: &Event| view.tasks.get(event.task_id.index());
        let row_of = |event: &Event| task_of(event).map(|task| task.row);
        let busy: BTreeSet<usize> = shown.iter().filter_map(row_of).collect();
        let place_of: BTreeMap<usize, usize> = busy.iter().copied().zip(0..).collect();
        let rows = busy.iter().filter_map(|row| view.rows.get(*row));
        let rows: Vec<String> = rows.map(|row| row.actors.join(", ")).collect();
        // The first READ starts at the end of the lane's previous operation, which may be long ago. The picture starts
        // at the first COMPUTE instead.
        let starts = |events: &mut dyn Iterator<Item = &Event>| events.map(|event| event.start_ns).min();
        let computes = starts(&mut shown.iter().filter(|event| event.operation == "COMPUTE"));
        let begin = computes.or_else(|| starts(&mut shown.iter())).unwrap_or_default();
        let end = shown.iter().map(|event| event.end_ns).fold(begin, u64::max);
        let micros = |ns: u64| ns as f64 / 1e3;

        let mut canvas = Canvas::new(&view.graph, &rows, micros(end - begin));
        let at = |event: &Event, ns: u64| At {
            row: row_of(event)
                .and_then(|row| place_of.get(&row))
                .copied()
                .unwrap_or_default(),
            us: micros(ns.saturating_sub(begin)),
        };
        for event in shown.iter().filter(|event| event.end_ns > begin) {
            let Some(task) = task_of(event) else { continue };
            let (from, until) = (at(event, event.start_ns), at(event, event.end_ns).us);
            let hint = format!(
                "{} of {}, execution {}: {:.1} µs",
                event.operation,
                task.label,
                event.execution,
                micros(event.end_ns.saturating_sub(event.start_ns))
            );
            match event.operation.as_str() {
                "COMPUTE" => canvas.work(from, until, view.colour(task), &task.method, &hint),
                "READ" => canvas.waiting(from, until, READING, &hint),
                _ => canvas.waiting(from, until, MEETING, &hint),
            }
        }
        let across = handovers(&self.ir, &shown).into_iter();
        for (write, compute) in across.filter(|(write, compute)| row_of(write) != row_of(compute)) {
            // A reader may begin before the recorded end of the WRITE. The arrow leads forward in time even then, as in
            // `trace_json`.
            let sent = write.end_ns.min(compute.start_ns);
            canvas.arrow(at(write, sent), at(compute, compute.start_ns));
        }
        let executions = pictured.len();
        let took = micros(end - begin);
        canvas.finish(&format!(
            "{executions} executions in {took:.1} µs; grey: waiting for an input, red: for other ranks"
        ))
    }
}

impl View {
    /// Returns the position of a task's actor among all actors, which selects the colour.
    pub(super) fn colour(&self, task: &Task) -> usize {
        let mut actors = self.rows.iter().flat_map(|row| &row.actors);
        actors.position(|actor| *actor == task.actor).unwrap_or_default()
    }
}
