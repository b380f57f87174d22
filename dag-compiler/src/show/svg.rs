//! Plans and traces as pictures: a row per lane. On the planned time line, a box per task and an arrow per value that
//! crosses lanes; of a trace, a box per computation, a bar per wait, and an arrow per value that crossed lanes.

use selvedge_core::{IdMap, IdSet};

use super::canvas::{At, Canvas};
use super::timeline::handovers;
use super::view::{Task, View, micros};
use crate::ir::Plan;
use crate::run::trace::Event;

impl Plan {
    /// Returns one execution on its planned time line, as SVG.
    pub fn to_svg(&self) -> String {
        let view = View::of(self, &[]);
        let rows = view.rows.iter();
        let rows: Vec<String> = rows.map(|row| format!("{} ({})", row.name, row.place)).collect();
        let mut canvas = Canvas::new(&view.graph, &rows, view.makespan_us);
        for task in &view.tasks {
            let from = At {
                row: task.row,
                us: task.start_us,
            };
            let hint = format!("{}, bound at {}", task.label, task.bound_at);
            canvas.work(from, task.end_us, task.colour, &task.label, &hint);
        }
        for arrow in view.arrows.iter().filter(|arrow| arrow.across) {
            let task = |id: u32| view.tasks.get(id as usize);
            if let (Some(from), Some(to)) = (task(arrow.from), task(arrow.to)) {
                let end = |row, us| At { row, us };
                canvas.arrow(end(from.row, from.end_us), end(to.row, to.start_us));
            }
        }
        let period = view
            .period_us
            .map(|period| format!(", many: one every {period:.1} µs"))
            .unwrap_or_default();
        canvas.finish(&match view.is_measured {
            true => format!("one execution alone: {:.1} µs{period}", view.makespan_us),
            false => "one execution, in order; durations are not measured".to_owned(),
        })
    }
}

/// The colour of waiting for an input.
const READING: &str = "#bbb";
/// The colour of waiting for other ranks of a collective, or for room.
const MEETING: &str = "#e8a0a0";

/// A trace as rows of a canvas.
struct Rows<'a> {
    view: &'a View,
    /// By row of the view: the row of the canvas. Lanes without events have none.
    places: IdMap<usize, usize>,
    /// The time of the left edge.
    begin: u64,
}

impl Rows<'_> {
    fn task(&self, event: &Event) -> Option<&Task> {
        self.view.tasks.get(event.task_id.index())
    }

    fn row(&self, event: &Event) -> Option<usize> {
        self.places.get(&self.task(event)?.row).copied()
    }

    fn at(&self, event: &Event, ns: u64) -> At {
        At {
            row: self.row(event).unwrap_or_default(),
            us: micros(ns.saturating_sub(self.begin)),
        }
    }

    fn draw(&self, canvas: &mut Canvas, event: &Event) {
        let Some(task) = self.task(event) else { return };
        let (from, until) = (self.at(event, event.start_ns), self.at(event, event.end_ns).us);
        let hint = format!(
            "{} of {}, execution {}: {:.1} µs",
            event.operation,
            task.label,
            event.execution,
            micros(event.end_ns.saturating_sub(event.start_ns))
        );
        match event.operation.as_str() {
            "COMPUTE" => canvas.work(from, until, task.colour, &task.method, &hint),
            "READ" => canvas.waiting(from, until, READING, &hint),
            _ => canvas.waiting(from, until, MEETING, &hint),
        }
    }
}

/// Returns the time at which a picture of events starts: the first COMPUTE. The first READ starts at the end of the
/// lane's previous operation, which may be long ago.
fn begin(events: &[Event]) -> u64 {
    let computes = events.iter().filter(|event| event.operation == "COMPUTE");
    let first = computes.map(|event| event.start_ns).min();
    first
        .or_else(|| events.iter().map(|event| event.start_ns).min())
        .unwrap_or_default()
}

impl Plan {
    /// Returns events of [`Graph::trace`](crate::Graph::trace) as SVG. Only the last `last` executions are drawn, so
    /// that boxes can be told apart. Lanes without events have no row.
    pub fn trace_svg(&self, events: &[Event], last: usize) -> String {
        let executions: IdSet<u64> = events.iter().map(|event| event.execution).collect();
        let pictured: IdSet<u64> = executions.into_iter().rev().take(last).collect();
        let shown = events.iter().filter(|event| pictured.contains(&event.execution));
        let shown: Vec<Event> = shown.cloned().collect();
        let view = View::of(self, &[]);
        let task_of = |event: &Event| view.tasks.get(event.task_id.index());
        let busy: IdSet<usize> = shown.iter().filter_map(task_of).map(|task| task.row).collect();
        let names = busy.iter().filter_map(|row| view.rows.get(*row));
        let names: Vec<String> = names.map(|row| row.actors.join(", ")).collect();
        let rows = Rows {
            view: &view,
            places: busy.into_iter().zip(0..).collect(),
            begin: begin(&shown),
        };
        let end = shown.iter().map(|event| event.end_ns).fold(rows.begin, u64::max);
        let took = micros(end - rows.begin);
        let mut canvas = Canvas::new(&view.graph, &names, took);
        for event in shown.iter().filter(|event| event.end_ns > rows.begin) {
            rows.draw(&mut canvas, event);
        }
        let across = handovers(&self.ir, &shown).into_iter();
        for (write, compute) in across.filter(|(write, compute)| rows.row(write) != rows.row(compute)) {
            // A reader may begin before the recorded end of the WRITE. The arrow leads forward in time even then, as in
            // `trace_json`.
            let sent = write.end_ns.min(compute.start_ns);
            canvas.arrow(rows.at(write, sent), rows.at(compute, compute.start_ns));
        }
        let executions = pictured.len();
        canvas.finish(&format!(
            "{executions} executions in {took:.1} µs; grey: waiting for an input, red: for other ranks"
        ))
    }
}
