//! Sentinels: threads whose end reveals a worker's death before its memory is released.
//!
//! The kernel reports a process as dead when its last thread has ended, and the last thread first releases the memory:
//! a third of a second for 2 GB. All other threads end at once. So a worker has two threads that only sleep. At least
//! one of them is not the last thread, and the driver watches both. (Pidfds of threads need Linux 6.9; on an older
//! kernel, a death is known when the memory is released.)

use std::path::Path;
use std::thread;

use crate::boxed::boxed_run;
use crate::promise::promise;
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The number of sentinels. At least one of two is not the last thread to end.
const SENTINELS: usize = 2;

/// The stack size of a sentinel. A sentinel sleeps, but a signal handler may run on it.
const STACK_BYTES: usize = 64 << 10;

/// The flag `PIDFD_THREAD`, which has the value of `open`'s flag `O_EXCL`.
const OF_A_THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::O_EXCL.cast_unsigned());

/// Starts the sentinels, as many as the system allows, and returns their thread ids.
pub(crate) fn start() -> Vec<u32> {
    let start = |_| {
        let (say, mut said) = promise();
        let sleep = move || {
            say.keep(rustix::thread::gettid().as_raw_nonzero().get());
            loop {
                thread::park();
            }
        };
        let thread = thread::Builder::new().name("selvedge-sentinel".to_owned());
        thread.stack_size(STACK_BYTES).spawn(boxed_run(sleep)).ok()?;
        said.wait(None)?.ok().map(i32::cast_unsigned)
    };
    (0..SENTINELS).filter_map(start).collect()
}

/// Opens a descriptor that becomes readable when thread `thread` of the process ends.
pub(crate) fn open(process: u32, thread: u32) -> Option<OwnedFd> {
    let pidfd = pidfd_open(Pid::from_raw(thread.cast_signed())?, OF_A_THREAD).ok()?;
    // The process still has this thread after the descriptor was opened, so the id was not reused by another process.
    let is_there = Path::new(&format!("/proc/{process}/task/{thread}")).exists();
    is_there.then_some(pidfd)
}
