//! How long somebody waits for a graph.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// A time to wait, of which the clock starts when there is something to wait for: reading it costs as much as the rest
/// of an execution that is there already.
pub(crate) struct Patience {
    timeout: Option<Duration>,
    /// What sets this time, for whoever runs out of it.
    pub(crate) option: &'static str,
    started: Cell<Option<Instant>>,
    /// As long as anybody spins has been spun.
    spun: Cell<bool>,
}

impl Patience {
    /// Waits at most `timeout`; `None` is without end.
    #[inline]
    pub(crate) fn new(timeout: Option<Duration>, option: &'static str) -> Self {
        Patience {
            timeout,
            option,
            started: Cell::new(None),
            spun: Cell::new(false),
        }
    }

    /// Takes note that it is time to park.
    pub(crate) fn spent_spinning(&self) {
        self.spun.set(true);
    }

    /// Whether it is time to park, without spinning first.
    pub(crate) fn has_spun(&self) -> bool {
        self.spun.get()
    }

    /// When it ends. Starts the clock; a time beyond what a clock can show has no end.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let timeout = self.timeout?;
        let started = self.started.get().unwrap_or_else(Instant::now);
        self.started.set(Some(started));
        started.checked_add(timeout)
    }

    /// How long it has lasted.
    pub(crate) fn waited(&self) -> Duration {
        self.started
            .get()
            .map_or(Duration::ZERO, |started| started.elapsed())
    }
}
