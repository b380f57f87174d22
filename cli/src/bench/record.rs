//! One row of the output: a JSON object, or a line of the table.

use std::io::{self, Write};

use serde::Serialize;

use crate::args::{Case, Placement, Wait};
use crate::bench::measure::Summary;

/// The printed fields of one measurement. Times are nanoseconds per operation.
#[derive(Serialize, Debug, Clone)]
pub struct Record {
    /// The case, as on the command line.
    pub case: String,
    /// The placement of the other side.
    pub placement: String,
    /// The way in which the sides waited; `-` if no side waits.
    pub wait: String,
    /// Actors in the graph; 0 in `limits`.
    pub actors: u32,
    /// Bytes in one payload.
    pub payload_bytes: u64,
    /// Operations measured, all repeats together.
    pub iterations: u64,
    /// Median duration.
    pub p50_ns: f64,
    /// 99th percentile of the durations.
    pub p99_ns: f64,
    /// 99.9th percentile of the durations.
    pub p999_ns: f64,
    /// Operations per second.
    pub per_second: f64,
    /// Payload bytes per second.
    pub bytes_per_second: f64,
    /// Executions in flight at once, if more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inflight: Option<u32>,
    /// Tasks planned, in `compile`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<u32>,
    /// The part of the work that this row measures, for cases with several parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// The use of a channel: `copy`, `loan` or `stream`; for a collective, the place of its vectors: `slot` or
    /// `private`, or Open MPI's variant: `open_mpi_apart` or `open_mpi_in_place`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Readers of a channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readers: Option<u32>,
    /// Ranks of a collective.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranks: Option<u32>,
    /// Idle inputs, in `idle`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<u32>,
    /// 90th percentile of the durations, in `waiting`: the slowest tenth of the starts takes longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p90_ns: Option<f64>,
    /// Other processes that kept a core busy, in `waiting`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub neighbours: Option<u32>,
    /// The limit of the machine that this row is (in `limits`) or is compared with (in other cases); plain calls in
    /// `calls`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// The best time that the limit allows: its median in this run, times the round trips that one execution needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_ns: Option<f64>,
    /// Median over the repeats of `p50_ns / limit_ns`, both of the same repeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
}

impl Record {
    /// Creates a row for `case` from `found`, without actors and limit.
    pub(crate) fn new(case: Case, payload_bytes: u64, found: &Summary) -> Self {
        Record {
            case: case.to_string(),
            placement: "-".to_owned(),
            wait: "-".to_owned(),
            actors: 0,
            payload_bytes,
            iterations: found.iterations,
            p50_ns: round(found.p50_ns, 10.0),
            p99_ns: round(found.p99_ns, 10.0),
            p999_ns: round(found.p999_ns, 10.0),
            per_second: round(found.per_second, 10.0),
            bytes_per_second: (found.per_second * payload_bytes as f64).round(),
            inflight: None,
            tasks: None,
            stage: None,
            mode: None,
            readers: None,
            ranks: None,
            inputs: None,
            p90_ns: None,
            neighbours: None,
            limit: None,
            limit_ns: None,
            ratio: None,
        }
    }

    /// Returns the row with the placement of the other side and the way in which both sides waited.
    pub(crate) fn placed(mut self, placement: Placement, wait: Wait) -> Self {
        self.placement = placement.to_string();
        self.wait = wait.to_string();
        self
    }

    /// Returns the row with the 90th percentile, rounded as the other percentiles are.
    pub(crate) fn p90(mut self, p90_ns: f64) -> Self {
        self.p90_ns = Some(round(p90_ns, 10.0));
        self
    }

    /// Returns the row with the best time that `limit` allows and the ratio to it.
    pub(crate) fn against(mut self, limit: &str, limit_ns: f64, ratio: f64) -> Self {
        self.limit = Some(limit.to_owned());
        self.limit_ns = Some(round(limit_ns, 10.0));
        self.ratio = Some(round(ratio, 100.0));
        self
    }
}

fn round(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}

/// The printer of rows: each row goes to standard output as soon as it is known.
pub(crate) struct Report<W: Write> {
    out: W,
    json: bool,
    rows: usize,
}

impl Report<io::Stdout> {
    /// Creates a report on standard output.
    pub(crate) fn stdout(json: bool) -> Self {
        Report {
            out: io::stdout(),
            json,
            rows: 0,
        }
    }
}

impl<W: Write> Report<W> {
    /// Prints one row.
    pub(crate) fn row(&mut self, record: &Record) -> anyhow::Result<()> {
        if self.json {
            writeln!(self.out, "{}", serde_json::to_string(record)?)?;
        } else {
            if self.rows == 0 {
                writeln!(self.out, "{}", header())?;
            }
            writeln!(self.out, "{}", line(record))?;
        }
        self.rows += 1;
        Ok(self.out.flush()?)
    }
}

fn header() -> String {
    columns([
        "case",
        "placement",
        "wait",
        "actors",
        "payload",
        "iterations",
        "p50",
        "p99",
        "per s",
        "bytes/s",
        "ratio",
        "part, limit",
    ])
}

fn line(record: &Record) -> String {
    let limit = match (&record.limit, record.limit_ns) {
        (Some(name), Some(ns)) => {
            let inputs = record
                .inputs
                .map(|inputs| format!(", {inputs} idle"))
                .unwrap_or_default();
            format!("{name} ({}){inputs}", nanoseconds(ns))
        }
        (Some(name), None) => name.clone(),
        (None, _) => record.stage.clone().unwrap_or_default(),
    };
    let limit = match (&record.mode, limit.is_empty()) {
        (Some(mode), true) => mode.clone(),
        (Some(mode), false) => format!("{mode} beside {limit}"),
        (None, _) => limit,
    };
    columns([
        &record.case,
        &record.placement,
        &record.wait,
        &record.actors.to_string(),
        &bytes(record.payload_bytes),
        &record.iterations.to_string(),
        &nanoseconds(record.p50_ns),
        &nanoseconds(record.p99_ns),
        &scaled(record.per_second, ""),
        &scaled(record.bytes_per_second, "B"),
        &record
            .ratio
            .map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
        &limit,
    ])
}

/// Formats one line of the table: words are left-aligned, quantities right-aligned in their columns.
fn columns(cells: [&str; 12]) -> String {
    let [
        case,
        placement,
        wait,
        actors,
        payload,
        iterations,
        p50,
        p99,
        per_second,
        bytes,
        ratio,
        limit,
    ] = cells;
    format!(
        "{case:<9}{placement:<11}{wait:<5}{actors:>6}{payload:>10}{iterations:>12}{p50:>10}{p99:>10}\
         {per_second:>10}{bytes:>10}{ratio:>8}  {limit}"
    )
    .trim_end()
    .to_owned()
}

/// Formats a duration with three digits and a unit: `0.27 µs`, `15 ms`.
pub fn nanoseconds(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{} µs", digits(ns / 1e3)),
        ns if ns < 1e9 => format!("{} ms", digits(ns / 1e6)),
        ns => format!("{} s", digits(ns / 1e9)),
    }
}

/// Formats a number of bytes: `64 MiB`, `1000 B`.
pub fn bytes(count: u64) -> String {
    match count {
        count if count >= 1 << 20 && count.is_multiple_of(1 << 20) => format!("{} MiB", count >> 20),
        count if count >= 1 << 10 && count.is_multiple_of(1 << 10) => format!("{} KiB", count >> 10),
        count => format!("{count} B"),
    }
}

/// Formats a value with three digits, a decimal prefix and the unit: `13.5 GB`.
pub fn scaled(mut value: f64, unit: &str) -> String {
    for prefix in ["", "k", "M", "G"] {
        if value < 1000.0 {
            return format!("{} {prefix}{unit}", digits(value)).trim_end().to_owned();
        }
        value /= 1000.0;
    }
    format!("{} T{unit}", digits(value))
}

fn digits(value: f64) -> String {
    match value {
        value if value < 10.0 => format!("{value:.2}"),
        value if value < 100.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let found = Summary {
            iterations: 5,
            p50_ns: 271.04,
            p99_ns: 15_300_000.0,
            p999_ns: 15_300_000.0,
            per_second: 3_700_000.0,
            p90_ns: 300.0,
        };
        let record = Record::new(Case::Echo, 8, &found).placed(Placement::Process, Wait::Spin);
        Record {
            actors: 1,
            ..record.against("cache_line_two_lines", 135.52, 2.0)
        }
    }

    #[test]
    fn a_row_is_one_json_object_on_one_line() {
        let mut report = Report {
            out: Vec::new(),
            json: true,
            rows: 0,
        };
        report.row(&record()).unwrap();
        let text = String::from_utf8(report.out).unwrap();
        assert_eq!(text.lines().count(), 1);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let fields = [
            "case",
            "placement",
            "wait",
            "actors",
            "payload_bytes",
            "iterations",
            "p50_ns",
            "p99_ns",
            "p999_ns",
        ];
        let more = ["per_second", "bytes_per_second", "limit_ns", "ratio"];
        assert!(
            fields.iter().chain(&more).all(|field| value.get(field).is_some()),
            "{text}"
        );
        assert_eq!(value["p50_ns"], 271.0);
        assert_eq!(value["ratio"], 2.0);
        assert!(value.get("tasks").is_none());
    }

    #[test]
    fn the_table_has_its_columns_under_the_heads() {
        let (head, row) = (header(), line(&record()));
        let column = |text: &str, word: &str| text.find(word).unwrap();
        assert_eq!(column(&head, "placement"), column(&row, "process"));
        // `µ` is two bytes long, so the columns after it are compared in characters.
        let end =
            |text: &str, word: &str| text.split(word).next().unwrap().chars().count() + word.chars().count();
        assert_eq!(end(&head, "p99"), end(&row, "15.3 ms"));
        assert_eq!(end(&head, " ratio"), end(&row, "2.00"));
    }

    #[test]
    fn rows_of_several_parts_name_theirs() {
        let mut record = record();
        record.mode = Some("put".to_owned());
        assert!(line(&record).ends_with("put beside cache_line_two_lines (136 ns)"));
        record.limit = None;
        assert!(line(&record).ends_with("2.00  put"));
    }

    #[test]
    fn quantities_are_short() {
        assert_eq!(nanoseconds(78_200.0), "78.2 µs");
        assert_eq!(nanoseconds(2.5e9), "2.50 s");
        assert_eq!(bytes(1000), "1000 B");
        assert_eq!(bytes(64 << 20), "64 MiB");
        assert_eq!(scaled(13.5e9, "B"), "13.5 GB");
        assert_eq!(scaled(11.0, ""), "11.0");
    }
}
