//! The reports of the simulator: violations, and the timeline of executed operations.
//!
//! A line is one JSON object and one `write` to a file opened for appending, so lines of several processes do not mix.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::settings;

static VIOLATIONS: AtomicU64 = AtomicU64::new(0);
static REPORT: OnceLock<Option<File>> = OnceLock::new();
static TIMELINE: OnceLock<Option<File>> = OnceLock::new();

/// Returns the number of violations that this process has found.
pub(crate) fn violations() -> u64 {
    VIOLATIONS.load(Ordering::Relaxed)
}

/// A line under construction.
#[derive(Debug)]
pub(crate) struct Line(String);

impl Line {
    /// Begins a line about `kind`, with the number of this process.
    pub(crate) fn new(kind: &str) -> Self {
        Line(String::from("{"))
            .text("kind", kind)
            .number("pid", u64::from(std::process::id()))
    }

    fn key(&mut self, key: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        let _ = write!(self.0, "\"{key}\":");
    }

    /// Adds a number.
    pub(crate) fn number(mut self, key: &str, value: u64) -> Self {
        self.key(key);
        let _ = write!(self.0, "{value}");
        self
    }

    /// Adds a text.
    pub(crate) fn text(mut self, key: &str, value: &str) -> Self {
        self.key(key);
        self.0.push('"');
        for letter in value.chars() {
            match letter {
                '"' | '\\' => {
                    self.0.push('\\');
                    self.0.push(letter);
                }
                control if control.is_control() => {
                    let _ = write!(self.0, "\\u{:04x}", u32::from(control));
                }
                plain => self.0.push(plain),
            }
        }
        self.0.push('"');
        self
    }

    fn end(mut self) -> String {
        self.0.push_str("}\n");
        self.0
    }

    /// Counts the line as a violation and writes it.
    pub(crate) fn violation(self) {
        VIOLATIONS.fetch_add(1, Ordering::Relaxed);
        self.note();
    }

    /// Writes the line to the report without counting it.
    pub(crate) fn note(self) {
        append(&REPORT, settings::get().report.as_deref(), &self.end());
    }

    /// Writes the line to the timeline.
    pub(crate) fn executed(self) {
        append(&TIMELINE, settings::get().timeline.as_deref(), &self.end());
    }
}

/// Whether there is a timeline.
pub(crate) fn has_timeline() -> bool {
    settings::get().timeline.is_some()
}

fn append(file: &OnceLock<Option<File>>, path: Option<&Path>, line: &str) {
    let open = || OpenOptions::new().create(true).append(true).open(path?).ok();
    if let Some(mut file) = file.get_or_init(open).as_ref() {
        // The error is ignored: it cannot be reported; the count remains correct.
        let _ = file.write_all(line.as_bytes());
    }
}

/// Returns the nanoseconds of `CLOCK_MONOTONIC`, which all processes of a machine share.
#[allow(unsafe_code)] // one system call
pub(crate) fn now_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes one timespec, and there is room for one.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let whole = Duration::from_secs(now.tv_sec.unsigned_abs());
    let part = Duration::from_nanos(now.tv_nsec.unsigned_abs());
    u64::try_from((whole + part).as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_json_object() {
        let line = Line(String::from("{"))
            .text("a", "say \"x\"\n")
            .number("b", 3)
            .end();
        assert_eq!(line, "{\"a\":\"say \\\"x\\\"\\u000a\",\"b\":3}\n");
    }
}
