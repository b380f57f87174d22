//! The planned time line as a picture: a row per lane, a box per task, an arrow per value that crosses lanes.

use super::canvas::{At, Canvas};
use super::view::View;
use crate::ir::Plan;

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
            canvas.work(from, task.end_us, view.colour(task), &task.label, &hint);
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
