//! Identities of processes, as recorded for the endpoints of a channel.

use std::sync::OnceLock;
use std::{fs, io};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

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
enum Look {
    /// The process runs or is stopped.
    Alive {
        /// The lower half of its start time.
        started: u32,
        /// True if a signal or a debugger has stopped the process.
        is_stopped: bool,
    },
    /// No process has this number, or the process has ended and waits to be reaped by its parent.
    Ended,
    /// The system reports nothing, because there is no descriptor to ask with or no `/proc`.
    Unseen,
}

/// Whether the process `pid` is stopped by a signal or a debugger, as far as the system reports.
pub fn is_stopped(pid: u32) -> bool {
    matches!(look(pid), Look::Alive { is_stopped: true, .. })
}

/// The exit status of the process `pid`, encoded as by `wait(2)`. The system knows it before the process is entirely
/// gone. 0 before that, and if this process may not see it; `None` if the system reports nothing.
pub fn ending_status(pid: u32) -> Option<i32> {
    // `proc_pid_stat(5)`: the last field.
    let fields = fields(pid).ok()??;
    fields.split_whitespace().next_back()?.parse().ok()
}

/// The part of `/proc/<pid>/stat` after the process's name, which may contain any bytes: the third field and those
/// after it.
fn fields(pid: u32) -> io::Result<Option<String>> {
    let mut stat = fs::read(format!("/proc/{pid}/stat"))?;
    let name_end = stat.windows(2).rposition(|bytes| bytes == b") ");
    Ok(name_end.and_then(|end| String::from_utf8(stat.split_off(end + 2)).ok()))
}

/// Reads the state and the start time of a process: fields 3 and 22 of `/proc/<pid>/stat`.
fn look(pid: u32) -> Look {
    if cfg!(miri) {
        return Look::Unseen; // Miri has no /proc
    }
    let fields = match fields(pid) {
        Ok(fields) => fields,
        // The process ended while its file was read.
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Look::Ended,
        // The process has no file in `/proc`; `kill(2)` tells whether it exists.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !exists(pid) => return Look::Ended,
        Err(_) => return Look::Unseen,
    };
    let Some(fields) = fields else {
        return Look::Unseen;
    };
    if fields.starts_with(['Z', 'X']) {
        return Look::Ended;
    }
    let ticks = fields
        .split(' ')
        .nth(19)
        .and_then(|ticks| ticks.parse::<u64>().ok());
    ticks.map_or(Look::Unseen, |ticks| Look::Alive {
        started: ticks as u32,
        is_stopped: fields.starts_with(['T', 't']),
    })
}

fn exists(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Signal, WaitOptions, kill_process, waitpid};

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

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no /proc")]
    fn a_name_that_is_no_text_hides_no_process() {
        // A thread has its own file in `/proc`, and can be renamed without its process.
        let named = std::thread::spawn(|| {
            fs::write("/proc/thread-self/comm", b"\xff) Z \xfe").unwrap();
            let task = fs::read_link("/proc/thread-self").unwrap();
            let task = task.file_name().unwrap().to_str().unwrap().parse().unwrap();
            let process = Process::numbered(task);
            (process.started, process.is_current())
        });
        let (started, is_current) = named.join().unwrap();
        assert!(started != 0 && is_current);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri starts no processes")]
    fn a_stopped_process_is_told_whatever_its_name() {
        use std::os::unix::ffi::OsStrExt;

        assert!(!is_stopped(std::process::id()));
        let folder = std::env::temp_dir().join(format!("selvedge-names-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        for name in [&b"plain"[..], b"\xff) R \xfe"] {
            // The kernel names a process after the file that was executed.
            let program = folder.join(std::ffi::OsStr::from_bytes(name));
            std::os::unix::fs::symlink("/bin/cat", &program).unwrap();
            let mut child = std::process::Command::new(&program)
                .stdin(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            let pid = Pid::from_child(&child);
            kill_process(pid, Signal::STOP).unwrap();
            waitpid(Some(pid), WaitOptions::UNTRACED).unwrap().unwrap();
            let seen = is_stopped(child.id());
            kill_process(pid, Signal::CONT).unwrap();
            drop(child.stdin.take());
            child.wait().unwrap();
            fs::remove_file(program).unwrap();
            assert!(seen, "{}", name.escape_ascii());
        }
        fs::remove_dir(folder).unwrap();
    }
}
