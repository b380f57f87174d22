//! The plot: median round trips by payload, spinning, between threads and between processes; both axes are logarithmic.

use std::collections::BTreeMap;
use std::fmt::Write;

use selvedge_cli::args::{Mode, Wait};
use selvedge_cli::bench::record::{bytes, nanoseconds};

use crate::case::Sides;
use crate::turns::{OURS, Point};

const PANEL: (f64, f64) = (460.0, 360.0);
const MARGIN: (f64, f64) = (70.0, 50.0);
const OUR_COLOUR: &str = "#d1495b";
const COLOURS: [&str; 5] = ["#00798c", "#edae49", "#66507a", "#5a8f29", "#8d6b48"];

/// The points of each name: payload in bytes, nanoseconds.
type Series<'a> = BTreeMap<&'a str, Vec<(f64, f64)>>;

/// Draws the results as an SVG.
pub(crate) fn draw(points: &[Point]) -> String {
    let panels = [
        (Sides::Threads, "two threads"),
        (Sides::Processes, "two processes"),
    ];
    let (width, height) = (2.0 * (PANEL.0 + 2.0 * MARGIN.0), PANEL.1 + 3.0 * MARGIN.1);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (at, (sides, title)) in panels.into_iter().enumerate() {
        let left = MARGIN.0 + at as f64 * (PANEL.0 + 2.0 * MARGIN.0);
        panel(&mut svg, left, title, &series(points, sides));
    }
    svg.push_str("</svg>\n");
    svg
}

fn series(points: &[Point], sides: Sides) -> Series<'_> {
    let mut series = Series::new();
    let shown = |point: &&Point| {
        let case = &point.case;
        case.sides == sides && case.wait == Wait::Spin && case.readers == 1 && case.mode == Mode::Copy
    };
    for point in points.iter().filter(shown) {
        for row in &point.rows {
            let name = if row.is_limit {
                "the machine's limit"
            } else {
                row.name
            };
            let at = (point.case.payload_bytes as f64, row.median.p50_ns);
            series.entry(name).or_default().push(at);
        }
    }
    series
}

fn panel(svg: &mut String, left: f64, title: &str, series: &Series<'_>) {
    let all = || series.values().flatten();
    let Some(first) = all().next() else { return };
    let bounds = all().fold((*first, *first), |(low, high), at| {
        (
            (low.0.min(at.0), low.1.min(at.1)),
            (high.0.max(at.0), high.1.max(at.1)),
        )
    });
    let ((x_low, y_low), (x_high, y_high)) = bounds;
    let (y_low, y_high) = (
        10_f64.powf(y_low.log10().floor()),
        10_f64.powf(y_high.log10().ceil()),
    );
    let place = |value: f64, low: f64, high: f64| (value / low).ln() / (high / low).ln().max(1e-9);
    let x = |value| left + PANEL.0 * place(value, x_low, x_high);
    let y = |value| MARGIN.1 + PANEL.1 * (1.0 - place(value, y_low, y_high));
    // Writing to a string cannot fail.
    let mut line = |text: String| _ = writeln!(svg, "{text}");
    line(format!(
        "<text x=\"{left}\" y=\"28\" font-size=\"15\">{title}: round trip, median, spinning; every byte read</text>"
    ));
    let mut decade = y_low;
    while decade <= y_high * 1.01 {
        let at = y(decade);
        line(format!(
            "<line x1=\"{left}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left + PANEL.0,
            left - 6.0,
            at + 4.0,
            nanoseconds(decade)
        ));
        decade *= 10.0;
    }
    let mut payloads: Vec<u64> = all().map(|at| at.0 as u64).collect();
    payloads.sort_unstable();
    payloads.dedup();
    for payload in payloads {
        line(format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"10\">{}</text>",
            x(payload as f64),
            MARGIN.1 + PANEL.1 + 18.0,
            bytes(payload)
        ));
    }
    let mut colours = COLOURS.iter().cycle();
    for (index, (name, points)) in series.iter().enumerate() {
        let limit = name.starts_with("the machine");
        let colour = match *name {
            OURS => OUR_COLOUR,
            _ if limit => "#999",
            _ => colours.next().copied().unwrap_or("#000"),
        };
        let dash = if limit { " stroke-dasharray=\"5 4\"" } else { "" };
        let width = if *name == OURS { 3.0 } else { 1.5 };
        let path: Vec<String> = points
            .iter()
            .map(|at| format!("{:.1},{:.1}", x(at.0), y(at.1)))
            .collect();
        line(format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"{dash}/>",
            path.join(" ")
        ));
        let (column, row) = ((index % 3) as f64, (index / 3) as f64);
        let (at, below) = (left + column * 160.0, MARGIN.1 + PANEL.1 + 45.0 + row * 20.0);
        line(format!(
            "<line x1=\"{at}\" x2=\"{}\" y1=\"{below}\" y2=\"{below}\" stroke=\"{colour}\" stroke-width=\"{width}\"{dash}/>\
             <text x=\"{}\" y=\"{}\">{name}</text>",
            at + 22.0,
            at + 28.0,
            below + 4.0
        ));
    }
}
