//! Processes, as `/proc` reports them.

use std::{fs, io};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::memory::process::Look;

/// Ends this process at once, as by `kill -9` from another process.
#[cfg(feature = "fault-points")]
pub(crate) fn kill_self() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
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

/// The bits of a process's kernel flags that say that the kernel has begun to end it: it exits (`PF_EXITING`), or a signal ends it
/// (`PF_SIGNALED`), which is known earlier.
const EXITING: u64 = 0x4 | 0x400;

/// Reads the state, the kernel flags and the start time of a process: fields 3, 9 and 22 of `/proc/<pid>/stat`.
pub(crate) fn look(pid: u32) -> Look {
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
    let number = |at: usize| fields.split(' ').nth(at)?.parse::<u64>().ok();
    number(19).map_or(Look::Unseen, |ticks| Look::Alive {
        started: ticks as u32,
        is_stopped: fields.starts_with(['T', 't']),
        is_exiting: number(6).is_some_and(|flags| flags & EXITING != 0),
    })
}

fn exists(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::process::{Process, is_stopped};
    use rustix::process::{Signal, WaitOptions, kill_process, waitpid};

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no /proc")]
    fn the_start_of_a_process_is_reported() {
        assert!(matches!(look(std::process::id()), Look::Alive { started, .. } if started != 0));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no /proc")]
    fn a_name_that_is_no_text_hides_no_process() {
        // A thread has its own file in `/proc`, and can be renamed without its process.
        let named = std::thread::spawn(|| {
            fs::write("/proc/thread-self/comm", b"\xff) Z \xfe").unwrap();
            let task = fs::read_link("/proc/thread-self").unwrap();
            let task = task.file_name().unwrap().to_str().unwrap().parse().unwrap();
            let started = match look(task) {
                Look::Alive { started, .. } => started,
                Look::Ended | Look::Unseen => 0,
            };
            (started, Process::numbered(task).is_current())
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
