//! Threads by whose end a worker's death is known before its memory is gone.
//!
//! The kernel says that a process is dead when its last thread has ended, and the last thread takes the memory down first: a third
//! of a second for 2 GB. All others end at once. So a worker has two threads that only sleep, one of which at least is not the last,
//! and its driver watches both (pidfds of threads: Linux 6.9; before it a death is known when the memory is gone).

use std::path::Path;
use std::sync::mpsc;
use std::thread;

use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// One of them is not the last thread to end.
const SENTINELS: usize = 2;

/// They sleep; a handler of a signal may run on them.
const STACK_BYTES: usize = 64 << 10;

/// `PIDFD_THREAD`, which is this flag of `open`.
const OF_A_THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::O_EXCL.cast_unsigned());

/// Starts them, as far as there may be threads, and gives their numbers.
pub(crate) fn start() -> Vec<u32> {
    let start = |_| {
        let (say, said) = mpsc::sync_channel(1);
        let sleep = move || {
            let _ = say.send(rustix::thread::gettid().as_raw_nonzero().get());
            loop {
                thread::park();
            }
        };
        let thread = thread::Builder::new().name("selvedge-sentinel".to_owned());
        thread.stack_size(STACK_BYTES).spawn(sleep).ok()?;
        said.recv().ok().map(i32::cast_unsigned)
    };
    (0..SENTINELS).filter_map(start).collect()
}

/// What becomes readable when that thread of the process ends.
pub(crate) fn open(process: u32, thread: u32) -> Option<OwnedFd> {
    let pidfd = pidfd_open(Pid::from_raw(thread.cast_signed())?, OF_A_THREAD).ok()?;
    // It has not ended, so nobody else can have been given its number before.
    let is_there = Path::new(&format!("/proc/{process}/task/{thread}")).exists();
    is_there.then_some(pidfd)
}
