//! Points as text: a block of lines for each point, or JSON.

use std::io::Write;

use selvedge_cli::args::Mode;
use selvedge_cli::bench::record::{nanoseconds, scaled};
use serde::Serialize;

use crate::turns::{OURS, Point, Row};

#[derive(Serialize)]
struct Line<'a> {
    point: &'a str,
    name: &'a str,
    payload_bytes: usize,
    readers: usize,
    p50_ns: f64,
    p99_ns: f64,
    p999_ns: f64,
    per_second: f64,
    ours_over: f64,
}

/// Prints a point.
pub(crate) fn print(point: &Point, json: bool) -> anyhow::Result<()> {
    let (title, mut out) = (point.case.title(), std::io::stdout().lock());
    if !json {
        writeln!(out, "\n{title}")?;
        writeln!(
            out,
            "  {:<22}{:>10}{:>10}{:>10}{:>12}{:>12}",
            "", "p50", "p99", "p99.9", "per second", "selvedge /"
        )?;
    }
    for row in &point.rows {
        let Row {
            name,
            median,
            ours_over,
            ..
        } = row;
        if json {
            let line = Line {
                point: &title,
                name,
                payload_bytes: point.case.payload_bytes,
                readers: point.case.readers,
                p50_ns: median.p50_ns,
                p99_ns: median.p99_ns,
                p999_ns: median.p999_ns,
                per_second: median.per_second,
                ours_over: *ours_over,
            };
            writeln!(out, "{}", serde_json::to_string(&line)?)?;
            continue;
        }
        let ratio = if *name == OURS {
            String::new()
        } else {
            format!("{ours_over:.2}")
        };
        writeln!(
            out,
            "  {name:<22}{:>10}{:>10}{:>10}{:>12}{ratio:>12}",
            nanoseconds(median.p50_ns),
            nanoseconds(median.p99_ns),
            nanoseconds(median.p999_ns),
            scaled(median.per_second, ""),
        )?;
    }
    Ok(out.flush()?)
}

/// Prints the points at which another library is faster than selvedge.
pub(crate) fn worst(points: &[Point], json: bool) {
    if json {
        return;
    }
    println!("\nfaster than selvedge:");
    let mut none = true;
    for point in points {
        for row in point
            .rows
            .iter()
            .filter(|row| !row.is_limit && row.ours_over > 1.0)
        {
            let what = if point.case.mode == Mode::Stream {
                " (time a message)"
            } else {
                ""
            };
            println!(
                "  {}: {} by {:.2}{what}",
                point.case.title(),
                row.name,
                row.ours_over
            );
            none = false;
        }
    }
    if none {
        println!("  nobody, anywhere");
    }
}
