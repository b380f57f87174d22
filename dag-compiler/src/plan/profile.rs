//! Profiles: the durations of a graph's tasks, measured by a trace.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ir::GraphIr;
use crate::run::trace::Event;

/// Measured durations of a graph's tasks, by label. [`Graph::recompile`](crate::Graph::recompile) orders tasks by them.
/// A profile is plain data, which may be stored and used for the same graph in another run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    tasks: BTreeMap<String, Work>,
}

/// The durations of one task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Work {
    /// The number of measurements.
    pub samples: u32,
    /// The median duration, in nanoseconds.
    pub p50_ns: u64,
    /// The longest duration, in nanoseconds.
    pub max_ns: u64,
}

impl Profile {
    /// Returns the durations of every finished COMPUTE among `events`.
    pub fn of(events: &[Event]) -> Self {
        let computed = |event: &&Event| event.operation == "COMPUTE" && !event.under_way;
        let found = events.iter().filter(computed);
        let mut found: Vec<(&str, u64)> = found
            .map(|event| (&*event.task, event.end_ns.saturating_sub(event.start_ns)))
            .collect();
        found.sort_unstable();
        let work = |found: &[(&str, u64)]| {
            let (task, max_ns) = *found.last()?;
            let (_, p50_ns) = *found.get(found.len() / 2)?;
            let samples = found.len() as u32;
            let work = Work {
                samples,
                p50_ns,
                max_ns,
            };
            Some((task.to_owned(), work))
        };
        let tasks = found.chunk_by(|(task, _), (next, _)| task == next);
        Profile {
            tasks: tasks.filter_map(work).collect(),
        }
    }

    /// Returns the durations of the task with this label.
    pub fn task(&self, label: &str) -> Option<Work> {
        self.tasks.get(label).copied()
    }

    /// Returns every measured task, by label.
    pub fn tasks(&self) -> impl Iterator<Item = (&str, Work)> {
        self.tasks.iter().map(|(label, work)| (label.as_str(), *work))
    }

    /// Writes the medians into a graph. Tasks that were not measured keep their durations.
    pub(crate) fn apply(&self, graph: &mut GraphIr) {
        for task in &mut graph.tasks {
            if let Some(work) = self.tasks.get(&task.label) {
                task.duration_ns = Some(work.p50_ns);
            }
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (label, work) in &self.tasks {
            let (median, most) = (
                Duration::from_nanos(work.p50_ns),
                Duration::from_nanos(work.max_ns),
            );
            writeln!(
                f,
                "{label}: {median:.1?}, at most {most:.1?}, {} times",
                work.samples
            )?;
        }
        Ok(())
    }
}
