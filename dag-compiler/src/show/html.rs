//! An HTML page that shows a plan, and a trace under it. The page contains everything it needs and works offline.

use super::view::View;
use crate::ir::Plan;
use crate::run::trace::Event;

/// The page, with a placeholder for its data.
const PAGE: &str = include_str!("page.html");

/// The placeholder for the data.
const PLACE: &str = "/*DATA*/null";

impl Plan {
    /// Returns the plan as one HTML page that works offline: rows of lanes, boxes of tasks, arrows of values. A click
    /// shows the values that a task reads and writes. The events of [`Graph::trace`](crate::Graph::trace) are drawn
    /// under the planned time line.
    pub fn to_html(&self, events: &[Event]) -> String {
        let data = serde_json::to_string(&View::of(self, events)).unwrap_or_else(|_| "null".to_owned());
        // Inside a script element, no text may look like the closing tag.
        PAGE.replacen(PLACE, &data.replace('<', "\\u003c"), 1)
    }
}
