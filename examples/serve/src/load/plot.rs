//! A run as a picture: each answer is a point, by the time of its request and its duration; refusals and failures are
//! below.

use std::fmt::Write;

use crate::load::drive::Run;
use crate::load::request::{End, Outcome};

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 40.0;
const RIGHT: f64 = 20.0;
const BOTTOM: f64 = 60.0;

/// The durations that the picture shows, in seconds, on a logarithmic scale, because a first token and a whole answer
/// take very different times.
const SHORTEST: f64 = 0.001;
const LONGEST: f64 = 100.0;

/// Draws the picture as SVG.
pub fn svg(run: &Run, title: &str) -> String {
    let time = run.time.as_secs_f64();
    let mut svg = String::new();
    // Writing to a string does not fail.
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"22\" font-size=\"14\">{title}</text>\n"
    );
    axes(&mut svg, time);
    for outcome in &run.outcomes {
        points(&mut svg, outcome, time);
    }
    legend(&mut svg);
    svg.push_str("</svg>\n");
    svg
}

fn across(seconds: f64, time: f64) -> f64 {
    LEFT + (WIDTH - LEFT - RIGHT) * seconds / time.max(SHORTEST)
}

fn down(seconds: f64) -> f64 {
    let share = (seconds.clamp(SHORTEST, LONGEST) / SHORTEST).log10() / (LONGEST / SHORTEST).log10();
    HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share
}

fn axes(svg: &mut String, time: f64) {
    for (seconds, label) in [
        (0.001, "1 ms"),
        (0.01, "10 ms"),
        (0.1, "100 ms"),
        (1.0, "1 s"),
        (10.0, "10 s"),
        (100.0, "100 s"),
    ] {
        let y = down(seconds);
        let (end, text) = (WIDTH - RIGHT, LEFT - 8.0);
        let _ = writeln!(svg, "<path d=\"M{LEFT} {y:.1}H{end}\" stroke=\"#ddd\"/>");
        let _ = writeln!(
            svg,
            "<text x=\"{text}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            y + 4.0
        );
    }
    for part in 0..=6 {
        let seconds = time * f64::from(part) / 6.0;
        let (x, y) = (across(seconds, time), HEIGHT - BOTTOM + 32.0);
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{seconds:.0} s</text>"
        );
    }
}

fn points(svg: &mut String, outcome: &Outcome, time: f64) {
    let x = across(outcome.sent.as_secs_f64(), time);
    let mut point = |y: f64, colour: &str| {
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"1.6\" fill=\"{colour}\" fill-opacity=\"0.6\"/>"
        );
    };
    match &outcome.end {
        End::Whole => {
            outcome
                .first
                .iter()
                .for_each(|first| point(down(first.as_secs_f64()), "#2a7"));
            point(down(outcome.whole.as_secs_f64()), "#26c");
        }
        End::Status(429, _) => point(HEIGHT - BOTTOM + 8.0, "#999"),
        _ => point(HEIGHT - BOTTOM + 16.0, "#d22"),
    }
}

fn legend(svg: &mut String) {
    let entries = [
        ("first token", "#2a7"),
        ("whole answer", "#26c"),
        ("429", "#999"),
        ("failed", "#d22"),
    ];
    for (index, (name, colour)) in (0..).zip(entries) {
        let x = LEFT + 110.0 * f64::from(index);
        let y = HEIGHT - 10.0;
        let _ = writeln!(
            svg,
            "<circle cx=\"{x}\" cy=\"{:.1}\" r=\"4\" fill=\"{colour}\"/>",
            y - 4.0
        );
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{y}\">{name}</text>", x + 9.0);
    }
}
