//! Processes, as `/proc` reports them.

use std::collections::BTreeSet;
use std::{fs, io};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, test_kill_process};

use crate::memory::process::Look;

/// Ends this process at once, as by `kill -9` from another process.
#[cfg(feature = "fault-points")]
pub(crate) fn kill_self() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
}

/// The signals that stop a process. None of them ends one.
const STOPPING: [i32; 4] = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// The exit status of the process `pid`, encoded as by `wait(2)`. The system knows it before the process is entirely
/// gone. 0 before that, and if this process may not see it; `None` if the system reports nothing.
pub fn ending_status(pid: u32) -> Option<i32> {
    let fields = fields(&format!("/proc/{pid}/stat")).ok()??;
    // `proc_pid_stat(5)`: the last field. A stopped or traced process has the signal there that has stopped it.
    let status = fields.split_whitespace().next_back()?.parse().ok()?;
    Some(if is_halted(&fields) || STOPPING.contains(&status) {
        0
    } else {
        status
    })
}

/// The part of a process's or a thread's `stat` after the name, which may contain any bytes: the third field and those after
/// it.
fn fields(path: &str) -> io::Result<Option<String>> {
    let mut stat = fs::read(path)?;
    let name_end = stat.windows(2).rposition(|bytes| bytes == b") ");
    Ok(name_end.and_then(|end| String::from_utf8(stat.split_off(end + 2)).ok()))
}

/// The bits of a thread's kernel flags that say that the kernel has begun to end it: it exits (`PF_EXITING`), or a signal ends it
/// (`PF_SIGNALED`), which is known earlier.
const EXITING: u64 = 0x4 | 0x400;

/// The places of numbers in what [`fields`] returns: fields 9, 20, 22 and 31 of `proc_pid_stat(5)`.
const FLAGS: usize = 6;
const THREADS: usize = 17;
const STARTED: usize = 19;
const PENDING: usize = 28;

fn number(fields: &str, at: usize) -> Option<u64> {
    fields.split(' ').nth(at)?.parse().ok()
}

/// Whether a thread with these fields has ended and waits to be reaped.
fn is_dead(fields: &str) -> bool {
    fields.starts_with(['Z', 'X'])
}

/// Whether a thread with these fields is stopped by a signal or by a tracer.
fn is_halted(fields: &str) -> bool {
    fields.starts_with(['T', 't'])
}

fn is_exiting(fields: &str) -> bool {
    number(fields, FLAGS).is_some_and(|flags| flags & EXITING != 0)
}

/// Whether a process whose first thread has ended, or is about to, has a thread that goes on. The end of a process, by `exit` or by a
/// signal, sends each thread a `SIGKILL` of its own. A first thread that ends by itself (`pthread_exit`) leaves the others be.
#[cold]
fn has_living_thread(pid: u32) -> bool {
    let goes_on = |thread: u32| {
        let fields = fields(&format!("/proc/{pid}/task/{thread}/stat"));
        let is_killed = |fields: &str| {
            let pending = number(fields, PENDING).unwrap_or_default();
            pending >> (Signal::KILL.as_raw() - 1) & 1 == 1
        };
        matches!(fields, Ok(Some(fields)) if !is_dead(&fields) && !is_exiting(&fields) && !is_killed(&fields))
    };
    // A thread may start another one and end before it is looked at, so the threads are listed until there is no new one.
    let mut ending = BTreeSet::new();
    loop {
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
            return false;
        };
        let threads = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
        let before = ending.len();
        for thread in threads {
            if ending.insert(thread) && goes_on(thread) {
                return true;
            }
        }
        if ending.len() == before {
            return false;
        }
    }
}

/// Reads the state, the kernel flags, the number of threads and the start time of a process from `/proc/<pid>/stat`. These are the first
/// thread's, which may end before the process does.
pub(crate) fn look(pid: u32) -> Look {
    if cfg!(miri) {
        return Look::Unseen; // Miri has no /proc
    }
    let fields = match fields(&format!("/proc/{pid}/stat")) {
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
    let is_first_ending = is_dead(&fields) || is_exiting(&fields);
    let has_others = number(&fields, THREADS).is_some_and(|threads| threads > 1);
    let is_ending = is_first_ending && !(has_others && has_living_thread(pid));
    if is_ending && is_dead(&fields) {
        return Look::Ended;
    }
    number(&fields, STARTED).map_or(Look::Unseen, |ticks| Look::Alive {
        started: ticks as u32,
        is_stopped: is_halted(&fields),
        is_exiting: is_ending,
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
    use rustix::process::{WaitIdOptions, WaitOptions, kill_process, waitid, waitpid};

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

    /// Ends its process when the descriptor that it gets is closed at the other end.
    #[allow(unsafe_code)]
    extern "C" fn end_at_the_end_of(pipe: *mut libc::c_void) -> *mut libc::c_void {
        let mut byte = 0_u8;
        // SAFETY: reads into a local byte.
        unsafe { libc::read(pipe.addr() as i32, (&raw mut byte).cast(), 1) };
        // SAFETY: nothing runs behind this call.
        unsafe { libc::_exit(0) }
    }

    /// Starts a process whose first thread ends at once. The other one ends when the pipe is closed.
    #[allow(unsafe_code)]
    fn without_its_first_thread() -> (Pid, io::PipeWriter) {
        use std::os::fd::AsRawFd;

        let (read, write) = io::pipe().unwrap();
        let pipe = std::ptr::without_provenance_mut(read.as_raw_fd() as usize);
        // SAFETY: the child starts a thread that runs nothing of this program but `end_at_the_end_of`, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let mut thread = 0;
            // SAFETY: sets a timer, whose signal ends a child that would wait for ever.
            unsafe { libc::alarm(30) };
            // SAFETY: closes the child's copy of an end that it does not use.
            unsafe { libc::close(write.as_raw_fd()) };
            // SAFETY: starts a thread with a function that asks nothing of its argument; writes to a local number.
            unsafe { libc::pthread_create(&raw mut thread, std::ptr::null(), end_at_the_end_of, pipe) };
            // SAFETY: ends the first thread, whose stack the other one does not use.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        }
        let child = Pid::from_raw(child).unwrap();
        let is_dead = || {
            is_dead(
                &fields(&format!("/proc/{}/stat", child.as_raw_pid()))
                    .unwrap()
                    .unwrap(),
            )
        };
        while !is_dead() {
            std::thread::yield_now();
        }
        (child, write)
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri starts no processes")]
    fn a_process_whose_first_thread_has_ended_lives_until_the_last_one_has() {
        for is_killed in [false, true] {
            let (child, pipe) = without_its_first_thread();
            let process = Process::numbered(child.as_raw_pid().cast_unsigned());
            assert!(process.is_current() && !process.is_ending());
            assert_ne!(
                process,
                Process::from_word(u64::from(process.pid) << 32),
                "it has a start time"
            );
            if is_killed {
                kill_process(child, Signal::KILL).unwrap();
                assert!(process.is_ending(), "no thread of it goes on");
            }
            drop(pipe);
            let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            waitid(rustix::process::WaitId::Pid(child), ended).unwrap();
            assert!(
                !process.is_current() && process.is_ending(),
                "it waits to be reaped"
            );
            waitpid(Some(child), WaitOptions::empty()).unwrap();
            assert!(!process.is_current() && process.is_ending());
        }
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
            let (seen, status) = (is_stopped(child.id()), ending_status(child.id()));
            kill_process(pid, Signal::CONT).unwrap();
            drop(child.stdin.take());
            child.wait().unwrap();
            fs::remove_file(program).unwrap();
            assert!(seen, "{}", name.escape_ascii());
            assert_eq!(status, Some(0), "the process has not begun to end");
        }
        fs::remove_dir(folder).unwrap();
    }
}
