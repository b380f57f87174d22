//! How long somebody waits for a graph.

use std::time::{Duration, Instant};

/// A time to wait, of which the clock starts when there is something to wait for: reading it costs as much as the rest
/// of an execution that is there already.
pub(crate) struct Patience {
    timeout: Option<Duration>,
    /// What sets this time, for whoever runs out of it.
    pub(crate) option: &'static str,
    started: Option<Instant>,
}

impl Patience {
    /// Waits at most `timeout`; `None` is without end.
    pub(crate) fn new(timeout: Option<Duration>, option: &'static str) -> Self {
        Patience {
            timeout,
            option,
            started: None,
        }
    }

    /// When it ends. Starts the clock; a time beyond what a clock can show has no end.
    pub(crate) fn deadline(&mut self) -> Option<Instant> {
        let timeout = self.timeout?;
        self.started.get_or_insert_with(Instant::now).checked_add(timeout)
    }

    /// How long it has lasted.
    pub(crate) fn waited(&self) -> Duration {
        self.started.map_or(Duration::ZERO, |started| started.elapsed())
    }
}
