//! A measured case: one point of the table.

use std::time::Duration;

use clap::ValueEnum;
use selvedge_channels::Waiting;
use selvedge_cli::args::{Mode, Wait};
use selvedge_cli::bench::limits::cores::Cores;

/// The kind of the two sides.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sides {
    /// Two threads of one process.
    Threads,
    /// Two processes.
    Processes,
}

/// One point of the table: every library that supports it is measured at it, in turns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) sides: Sides,
    pub(crate) mode: Mode,
    pub(crate) wait: Wait,
    pub(crate) payload_bytes: usize,
    pub(crate) readers: usize,
    /// The wait policy of selvedge's channels. It is chosen before any thread is pinned, because a pinned thread counts
    /// only one available core.
    pub(crate) waiting: Waiting,
    /// The time that one repeat of one library may take.
    pub(crate) budget: Duration,
}

impl Case {
    /// Returns the cores to use. Parking sides share one core, because a wake-up across cores hides the cost of the
    /// software; several readers run on any core.
    pub(crate) fn cores(&self) -> Cores {
        match self.wait {
            _ if self.readers > 1 => Cores::Any,
            Wait::Spin | Wait::Auto => Cores::Two,
            Wait::Park => Cores::One,
        }
    }

    /// Whether the payload is a number; payloads of eight bytes are.
    pub(crate) fn is_number(&self) -> bool {
        self.payload_bytes == 8
    }

    pub(crate) fn spins(&self) -> bool {
        self.wait == Wait::Spin
    }

    /// Returns the heading of the point's rows.
    pub(crate) fn title(&self) -> String {
        let Case {
            sides,
            mode,
            wait,
            payload_bytes,
            readers,
            ..
        } = self;
        let sides = match sides {
            Sides::Threads => "threads",
            Sides::Processes => "processes",
        };
        let mode = match mode {
            Mode::Copy => "copied, every byte read",
            Mode::Loan => "lent, ends touched",
            Mode::Stream => "one way",
        };
        let bytes = selvedge_cli::bench::record::bytes(*payload_bytes as u64);
        let readers = if *readers == 1 {
            String::new()
        } else {
            format!(", {readers} readers")
        };
        format!("{sides}, {wait}, {bytes}, {mode}{readers}")
    }
}
