//! Processes, as the ends of a channel name them.

use std::fs;
use std::sync::OnceLock;

/// A process of this host: its number, and when it started, which tells it from a later process of the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// The lower half of the start time, in clock ticks since boot; 0 where the system does not say.
    started: u32,
}

impl Process {
    /// This process.
    pub fn own() -> Self {
        static OWN: OnceLock<Process> = OnceLock::new();
        let own = *OWN.get_or_init(|| Process::numbered(std::process::id()));
        // A fork has its parent's cell.
        if own.pid == std::process::id() {
            own
        } else {
            Process::numbered(std::process::id())
        }
    }

    /// The process that has this number now.
    pub fn numbered(pid: u32) -> Self {
        Process {
            pid,
            started: start_time(pid).unwrap_or(0),
        }
    }

    /// Whether the process with this number is still this one, as far as the system says.
    pub fn is_current(self) -> bool {
        match start_time(self.pid) {
            Some(started) => self.started == 0 || self.started == started,
            None => cfg!(miri),
        }
    }

    /// As a word; never 0, and the highest bit is free: the system's numbers are below 2^22.
    pub fn to_word(self) -> u64 {
        u64::from(self.pid & 0x7FFF_FFFF) << 32 | u64::from(self.started)
    }

    /// As [`to_word`](Self::to_word) wrote it.
    pub fn from_word(word: u64) -> Self {
        Process {
            pid: (word >> 32) as u32 & 0x7FFF_FFFF,
            started: word as u32,
        }
    }
}

/// Field 22 of `/proc/<pid>/stat`, counted after the name, which may hold anything; none for a process that has ended and
/// waits for its parent to ask (states Z and X).
fn start_time(pid: u32) -> Option<u32> {
    if cfg!(miri) {
        return None; // a model has no /proc
    }
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields = stat.rsplit_once(") ")?.1;
    if fields.starts_with(['Z', 'X']) {
        return None;
    }
    let ticks: u64 = fields.split(' ').nth(19)?.parse().ok()?;
    Some(ticks as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no /proc")]
    fn a_process_is_itself_and_not_an_earlier_one_of_its_number() {
        let own = Process::own();
        assert!(own.started != 0 && own.is_current());
        assert_eq!(Process::from_word(own.to_word()), own);
        let earlier = Process {
            started: own.started - 1,
            ..own
        };
        assert!(!earlier.is_current());
        let nobody = Process {
            pid: u32::MAX,
            started: 0,
        };
        assert!(!nobody.is_current());
    }
}
