//! The results of a run: throughput, percentiles, and the ends of requests.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use crate::load::drive::Run;
use crate::load::request::{End, Outcome};

/// Percentiles of some durations, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Percentiles {
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

impl Percentiles {
    /// Computes the percentiles of durations in any order; zeros if there are none.
    pub fn of(mut durations: Vec<Duration>) -> Percentiles {
        durations.sort_unstable();
        let at = |share: f64| {
            let index = (share * durations.len() as f64).ceil() as usize;
            let found = durations.get(index.saturating_sub(1));
            found.map_or(0.0, |duration| duration.as_secs_f64() * 1e3)
        };
        Percentiles {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: at(1.0),
        }
    }

    fn to_json(self) -> Value {
        json!({"p50_ms": self.p50, "p90_ms": self.p90, "p99_ms": self.p99, "max_ms": self.max})
    }
}

impl fmt::Display for Percentiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Percentiles { p50, p90, p99, max } = self;
        write!(
            f,
            "p50 {p50:.1} ms, p90 {p90:.1} ms, p99 {p99:.1} ms, max {max:.1} ms"
        )
    }
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// Requests sent.
    pub sent: usize,
    /// Whole answers.
    pub whole: usize,
    /// Requests sent per second.
    pub offered: f64,
    /// Whole answers per second.
    pub requests_per_second: f64,
    /// Tokens of whole answers per second.
    pub tokens_per_second: f64,
    /// The times to the first piece.
    pub first: Percentiles,
    /// The times between pieces.
    pub between: Percentiles,
    /// The times to the end.
    pub entire: Percentiles,
    /// The number of requests by the way they ended.
    pub ends: BTreeMap<String, usize>,
    /// The requests that were sent a second time, because the kept connection of the first time broke.
    pub repeated: u64,
}

impl Report {
    /// Computes the report of a run.
    pub fn of(run: &Run) -> Report {
        let whole: Vec<&Outcome> = run.outcomes.iter().filter(|it| it.end == End::Whole).collect();
        let mut ends = BTreeMap::new();
        for outcome in &run.outcomes {
            *ends.entry(word(&outcome.end)).or_default() += 1;
        }
        let tokens: u64 = whole.iter().map(|outcome| outcome.tokens).sum();
        let seconds = run.whole.as_secs_f64();
        Report {
            sent: run.outcomes.len(),
            whole: whole.len(),
            offered: run.outcomes.len() as f64 / run.time.as_secs_f64(),
            requests_per_second: whole.len() as f64 / seconds,
            tokens_per_second: tokens as f64 / seconds,
            first: Percentiles::of(whole.iter().filter_map(|it| it.first).collect()),
            between: Percentiles::of(whole.iter().flat_map(|it| it.gaps.iter().copied()).collect()),
            entire: Percentiles::of(whole.iter().map(|it| it.whole).collect()),
            ends,
            repeated: run.repeated,
        }
    }

    /// Returns the number of requests that ended neither whole nor with 429.
    pub fn failures(&self) -> usize {
        let fine = |word: &str| ["200", "429"].contains(&word);
        self.ends
            .iter()
            .filter(|(word, _)| !fine(word))
            .map(|(_, count)| count)
            .sum()
    }

    /// Returns the number of requests that failed because a worker died while it worked on them.
    pub fn lost(&self) -> usize {
        let lost = ["503 model_lost", "200, then model_lost"];
        lost.iter().filter_map(|word| self.ends.get(*word)).sum()
    }

    /// Returns the report as JSON, for programs.
    pub fn to_json(&self) -> Value {
        json!({
            "sent": self.sent,
            "whole": self.whole,
            "offered_per_second": self.offered,
            "requests_per_second": self.requests_per_second,
            "tokens_per_second": self.tokens_per_second,
            "first_token": self.first.to_json(),
            "between_tokens": self.between.to_json(),
            "entire": self.entire.to_json(),
            "ends": self.ends,
            "repeated": self.repeated,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ends: Vec<String> = self
            .ends
            .iter()
            .map(|(word, count)| format!("{count} × {word}"))
            .collect();
        writeln!(f, "sent         {}, {:.1} a second", self.sent, self.offered)?;
        let (requests, tokens) = (self.requests_per_second, self.tokens_per_second);
        writeln!(
            f,
            "served       {}, {requests:.1} a second, {tokens:.0} tokens a second",
            self.whole
        )?;
        writeln!(f, "ended        {}", ends.join(", "))?;
        if self.repeated > 0 {
            let repeated = self.repeated;
            writeln!(f, "repeated     {repeated}, whose kept connection broke")?;
        }
        writeln!(f, "first token  {}", self.first)?;
        writeln!(f, "between      {}", self.between)?;
        write!(f, "whole        {}", self.entire)
    }
}

fn word(end: &End) -> String {
    match end {
        End::Whole => "200".into(),
        End::Status(status, None) => status.to_string(),
        End::Status(status, Some(code)) => format!("{status} {code}"),
        End::Event(code) => format!("200, then {code}"),
        End::Connection(error) => error.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::drive::Load;

    #[test]
    fn only_what_a_kill_explains_is_lost_by_it() {
        let ended = |end| Outcome {
            sent: Duration::ZERO,
            end,
            first: None,
            gaps: Vec::new(),
            whole: Duration::ZERO,
            tokens: 0,
        };
        let status = |status, code: &str| End::Status(status, Some(code.to_owned()));
        let ends = [
            End::Whole,
            End::Status(429, None),
            status(503, "model_lost"),
            End::Event("model_lost".into()),
            status(503, "queue_timeout"),
            status(503, "shutting_down"),
        ];
        let report = Report::of(&Run {
            load: Load::Clients(1),
            time: Duration::from_secs(1),
            whole: Duration::from_secs(1),
            outcomes: ends.map(ended).into(),
            repeated: 3,
        });
        assert_eq!((report.whole, report.failures(), report.lost()), (1, 4, 2));
        let text = report.to_string();
        assert!(
            text.contains("1 × 503 queue_timeout") && text.contains("repeated     3"),
            "{text}"
        );
    }
}
