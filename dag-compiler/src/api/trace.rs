//! The trace of a graph, in the formats that users get.

use std::io::{self, Write};
use std::sync::atomic::Ordering;

use crate::api::graph::Graph;
use crate::run::control::region;
use crate::run::engine::Engine;
use crate::run::layout::Span;
use crate::run::trace::{Event, read};
use crate::show::inspect;

/// The events that [`Graph::trace`] returns.
fn events(engine: &Engine) -> Vec<Event> {
    let Some(began) = engine.began else {
        return Vec::new();
    };
    // Relaxed: a counter orders nothing; a late one shows an operation as in flight.
    let finished = engine.counters.finished.load(Ordering::Relaxed);
    read::read(&engine.plan, &engine.layout, began, finished, |offset, len| {
        region(&engine.segment, Span { offset, len }).ok()
    })
}

impl<In, Out> Graph<In, Out> {
    /// The operations that are still in the event rings, by start time, and the COMPUTEs in flight. Empty unless
    /// `Options::trace` keeps events.
    pub fn trace(&self) -> Vec<Event> {
        events(&self.engine)
    }

    /// Returns the [`trace`](Self::trace) as a file for `ui.perfetto.dev` or `chrome://tracing`, with arrows along
    /// edges.
    pub fn trace_json(&self) -> String {
        self.plan().trace_json(&self.trace())
    }

    /// One HTML page that works offline: the planned time line, and below it the events in the event rings.
    pub fn to_html(&self) -> String {
        self.plan().to_html(&self.trace())
    }

    /// Returns the [`trace`](Self::trace) as a picture (SVG) of the last `executions`: one row per lane, with its
    /// computations and its waits.
    pub fn trace_svg(&self, executions: usize) -> String {
        self.plan().trace_svg(&self.trace(), executions)
    }

    /// Writes the trace once to the file that `--selvedge-trace` names: a page if the name ends in `.html`, a picture
    /// if it ends in `.svg`, else a file for Perfetto.
    pub(super) fn save_trace(&self) {
        let Some(file) = inspect::trace_file() else { return };
        // Relaxed: only the first tear-down writes the file; a second write would write it again.
        if self.engine.torn_down.load(Ordering::Relaxed) {
            return;
        }
        let text = match file.rsplit('.').next() {
            Some("html") => self.to_html(),
            Some("svg") => self.trace_svg(inspect::PICTURED),
            _ => self.trace_json(),
        };
        if let Err(error) = std::fs::write(&file, text) {
            // Nobody may read it any more.
            let _ = writeln!(io::stderr(), "the trace could not be written to {file}: {error}");
        }
    }
}
