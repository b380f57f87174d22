//! The planned time line as a picture: a row per lane, a box per task, an arrow per value that crosses lanes.

use std::fmt::Write;

use super::view::View;
use crate::ir::Plan;

const LEFT: f64 = 150.0;
const WIDTH: f64 = 1000.0;
const ROW: f64 = 46.0;
const TOP: f64 = 34.0;

/// Colours that stay apart for most eyes (Okabe and Ito), one per actor in turn.
const COLOURS: [&str; 7] = [
    "#56b4e9", "#e69f00", "#009e73", "#f0e442", "#cc79a7", "#0072b2", "#d55e00",
];

/// A text as XML writes it.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

impl Plan {
    /// One execution on its planned time line, as SVG.
    pub fn to_svg(&self) -> String {
        let view = View::of(self, &[]);
        let scale = WIDTH / view.makespan_us.max(f64::MIN_POSITIVE);
        let x = |us: f64| LEFT + us * scale;
        let y = |row: usize| TOP + row as f64 * ROW;
        let (width, height) = (LEFT + WIDTH + 20.0, y(view.rows.len()) + 24.0);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
             font-size=\"12\">\n<defs><marker id=\"tip\" viewBox=\"0 0 6 6\" refX=\"5\" refY=\"3\" markerWidth=\"6\" \
             markerHeight=\"6\" orient=\"auto\"><path d=\"M0 0L6 3L0 6z\" fill=\"#555\"/></marker></defs>\n\
             <text x=\"10\" y=\"20\" font-weight=\"bold\">{}</text>\n",
            escaped(&view.graph)
        );
        for (row, lane) in view.rows.iter().enumerate() {
            let (top, name) = (y(row), escaped(&format!("{} ({})", lane.name, lane.place)));
            let _ = writeln!(
                svg,
                "<rect x=\"{LEFT}\" y=\"{top}\" width=\"{WIDTH}\" height=\"{}\" fill=\"#f4f4f4\"/>\
                 <text x=\"10\" y=\"{}\">{name}</text>",
                ROW - 8.0,
                top + 22.0
            );
        }
        let actors: Vec<&String> = view.rows.iter().flat_map(|row| &row.actors).collect();
        for task in &view.tasks {
            let colour = actors
                .iter()
                .position(|actor| **actor == task.actor)
                .unwrap_or_default();
            let fill = COLOURS.get(colour % COLOURS.len()).copied().unwrap_or("#ccc");
            let (left, top) = (x(task.start_us), y(task.row));
            let wide = ((task.end_us - task.start_us) * scale).max(1.5);
            let label = escaped(&task.label);
            let at = escaped(&task.bound_at);
            let _ = write!(
                svg,
                "<g><title>{label}, bound at {at}</title><rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{wide:.1}\" \
                 height=\"{}\" rx=\"2\" fill=\"{fill}\" stroke=\"#333\" stroke-width=\"0.5\"/>",
                top + 2.0,
                ROW - 12.0
            );
            let room = (wide / 7.0) as usize;
            if room >= 3 {
                let short: String = task.label.chars().take(room).collect();
                let _ = write!(
                    svg,
                    "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                    left + 3.0,
                    top + 22.0,
                    escaped(&short)
                );
            }
            svg.push_str("</g>\n");
        }
        for arrow in view.arrows.iter().filter(|arrow| arrow.across) {
            let (Some(from), Some(to)) = (
                view.tasks.get(arrow.from as usize),
                view.tasks.get(arrow.to as usize),
            ) else {
                continue;
            };
            let _ = writeln!(
                svg,
                "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"#555\" stroke-width=\"1\" \
                 marker-end=\"url(#tip)\"/>",
                x(from.end_us),
                y(from.row) + 19.0,
                x(to.start_us),
                y(to.row) + 19.0
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{LEFT}\" y=\"{}\">one execution alone: {:.1} µs{}</text>\n</svg>",
            height - 8.0,
            view.makespan_us,
            view.period_us
                .map(|period| format!(", many: one every {period:.1} µs"))
                .unwrap_or_default()
        );
        svg
    }
}
