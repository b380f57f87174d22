//! The time that a run has spent in each stage, from the graph's trace.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use selvedge::Event;

/// The times of actors in the steps that are still in the trace.
#[derive(Clone, Debug, Default)]
pub struct Report {
    actors: BTreeMap<String, Spent>,
}

/// The medians of an actor over the steps.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    computing: Duration,
    summing: Duration,
    steps: usize,
}

impl Report {
    /// Summarises events. The first step, which has the prompt, is left out if there are others.
    #[must_use]
    pub fn of(events: &[Event]) -> Self {
        let first = events.iter().map(|event| event.execution).min();
        let last = events.iter().map(|event| event.execution).max();
        let counts = |event: &&Event| first == last || Some(event.execution) != first;
        let mut found: BTreeMap<&str, BTreeMap<u64, [u64; 2]>> = BTreeMap::new();
        for event in events.iter().filter(counts) {
            let [computing, summing] = found
                .entry(&event.actor)
                .or_default()
                .entry(event.execution)
                .or_default();
            let ns = event.end_ns.saturating_sub(event.start_ns);
            match event.operation.as_str() {
                "COMPUTE" => *computing += ns,
                "COLLECTIVE" => *summing += ns,
                _ => {}
            }
        }
        let spent = |(actor, steps): (&str, BTreeMap<u64, [u64; 2]>)| {
            let median = |of: fn(&[u64; 2]) -> u64| {
                let mut ns: Vec<u64> = steps.values().map(of).collect();
                ns.sort_unstable();
                Duration::from_nanos(ns.get(ns.len() / 2).copied().unwrap_or_default())
            };
            let spent = Spent {
                computing: median(|[computing, _]| *computing),
                summing: median(|[_, summing]| *summing),
                steps: steps.len(),
            };
            (actor.to_owned(), spent)
        };
        Report {
            actors: found.into_iter().map(spent).collect(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.actors.keys().map(String::len).fold(12, usize::max);
        for (actor, spent) in &self.actors {
            write!(f, "{actor:<width$} {:.1?} a step", spent.computing)?;
            if !spent.summing.is_zero() {
                write!(f, ", and {:.1?} in sums with other ranks", spent.summing)?;
            }
            writeln!(f, ", median of {}", spent.steps)?;
        }
        Ok(())
    }
}
