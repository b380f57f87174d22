//! Identities of processes, as recorded for the endpoints of a channel.

use std::sync::OnceLock;

pub use crate::platform::process::ending_status;
use crate::platform::process::look;

/// A process of this host: its number and its start time. The start time distinguishes it from a later process with the
/// same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// The process number (PID).
    pub pid: u32,
    /// The lower half of the start time, in clock ticks since boot; 0 if the system does not report it.
    started: u32,
}

impl Process {
    /// The calling process.
    pub fn own() -> Self {
        static OWN: OnceLock<Process> = OnceLock::new();
        let own = *OWN.get_or_init(|| Process::numbered(std::process::id()));
        // A forked child inherits the cell of its parent.
        if own.pid == std::process::id() {
            own
        } else {
            Process::numbered(std::process::id())
        }
    }

    /// The process that has the number `pid` now.
    pub fn numbered(pid: u32) -> Self {
        Process {
            pid,
            started: match look(pid) {
                Look::Alive { started, .. } => started,
                Look::Ended | Look::Unseen => 0,
            },
        }
    }

    /// Whether the process with this number is still this one, as far as the system reports; `true` if it reports
    /// nothing.
    pub fn is_current(self) -> bool {
        match look(self.pid) {
            Look::Alive { started, .. } => self.started == 0 || self.started == started,
            Look::Ended => false,
            Look::Unseen => true,
        }
    }

    /// Whether the process has ended, or the kernel has begun to end it: each of its threads exits, or has a signal pending that
    /// ends it before it returns to user code. Such a thread may run on for the moment that an interrupt takes to reach its core.
    /// Others see that the files of the process are closed, which can be long before it has ended. `false` if the system reports
    /// nothing.
    pub fn is_ending(self) -> bool {
        match look(self.pid) {
            Look::Alive {
                started, is_exiting, ..
            } => is_exiting || (self.started != 0 && self.started != started),
            Look::Ended => true,
            Look::Unseen => false,
        }
    }

    /// Encodes the process as a word. The word is never 0 and its highest bit is free, because process numbers are
    /// below 2^22.
    pub fn to_word(self) -> u64 {
        u64::from(self.pid & 0x7FFF_FFFF) << 32 | u64::from(self.started)
    }

    /// Decodes a word that [`to_word`](Self::to_word) has encoded.
    pub fn from_word(word: u64) -> Self {
        Process {
            pid: (word >> 32) as u32 & 0x7FFF_FFFF,
            started: word as u32,
        }
    }
}

/// The state of a process, as reported by the system.
#[allow(dead_code, reason = "the states that a platform reports differ")]
pub(crate) enum Look {
    /// The process runs or is stopped.
    Alive {
        /// The lower half of its start time.
        started: u32,
        /// True if a signal or a debugger has stopped the process.
        is_stopped: bool,
        /// True if the kernel has begun to end all of its threads.
        is_exiting: bool,
    },
    /// No process has this number, or the process has ended, with all of its threads, and waits to be reaped by its parent.
    Ended,
    /// The system reports nothing, because there is no descriptor to ask with or no `/proc`.
    Unseen,
}

/// Whether the process `pid` is stopped by a signal or a debugger, as far as the system reports.
pub fn is_stopped(pid: u32) -> bool {
    matches!(look(pid), Look::Alive { is_stopped: true, .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no /proc")]
    fn a_process_is_itself_and_not_an_earlier_one_of_its_number() {
        let own = Process::own();
        assert!(own.is_current());
        assert_eq!(Process::from_word(own.to_word()), own);
        if own.started == 0 {
            return; // The system does not report when a process started.
        }
        let earlier = Process {
            started: own.started - 1,
            ..own
        };
        assert!(!earlier.is_current() && earlier.is_ending() && !own.is_ending());
        let nobody = Process {
            pid: u32::MAX,
            started: 0,
        };
        assert!(!nobody.is_current() && nobody.is_ending());
    }
}
