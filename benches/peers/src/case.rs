//! What is measured: one point of the table.

use std::time::Duration;

use clap::ValueEnum;
use selvedge_channels::Waiting;
use selvedge_cli::args::{Mode, Wait};
use selvedge_cli::bench::limits::cores::Cores;

/// Where the two sides run.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sides {
    /// Two threads of one process.
    Threads,
    /// Two processes.
    Processes,
}

/// One point: everybody who can is measured at it, in turns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) sides: Sides,
    pub(crate) mode: Mode,
    pub(crate) wait: Wait,
    pub(crate) payload_bytes: usize,
    pub(crate) readers: usize,
    /// How ours waits. Decided before anybody is pinned: a thread on one core believes that there is no other.
    pub(crate) waiting: Waiting,
    /// What one repeat of one peer may take.
    pub(crate) budget: Duration,
}

impl Case {
    /// Who parks does so on one core, for a wake across cores hides the software; several readers run where they like.
    pub(crate) fn cores(&self) -> Cores {
        match self.wait {
            _ if self.readers > 1 => Cores::Any,
            Wait::Spin | Wait::Auto => Cores::Two,
            Wait::Park => Cores::One,
        }
    }

    /// Payloads of eight bytes are a number.
    pub(crate) fn is_number(&self) -> bool {
        self.payload_bytes == 8
    }

    pub(crate) fn spins(&self) -> bool {
        self.wait == Wait::Spin
    }

    /// The heading of its rows.
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
