//! One page that shows a plan, and a trace under it, offline: everything it needs is in it.

use super::view::View;
use crate::ir::Plan;
use crate::run::trace::Event;

/// The page, with a place for its data.
const PAGE: &str = include_str!("page.html");

/// Where the data goes.
const PLACE: &str = "/*DATA*/null";

impl Plan {
    /// The plan as one HTML page that works offline: rows of lanes, boxes of tasks, arrows of values; a click shows what a
    /// task reads and writes. What [`Graph::trace`](crate::Graph::trace) has returned is drawn under the planned time line.
    pub fn to_html(&self, events: &[Event]) -> String {
        let data = serde_json::to_string(&View::of(self, events)).unwrap_or_else(|_| "null".to_owned());
        // Inside a script element nothing may look like its end.
        PAGE.replacen(PLACE, &data.replace('<', "\\u003c"), 1)
    }
}
