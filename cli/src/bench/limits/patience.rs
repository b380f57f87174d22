//! Waiting with a time limit: no side of a measurement outlives the other by more than [`PATIENCE`].

use std::hint;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::futex;

/// The time limit for waiting on the other side. It exceeds the time of any single copy of the largest payload.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// The number of spin turns, of a few nanoseconds each, between two looks at the clock.
const TURNS: u32 = 1 << 20;

/// Spins until `ready` returns a value.
pub(crate) fn spin_until<T>(mut ready: impl FnMut() -> Option<T>) -> anyhow::Result<T> {
    let mut deadline = None;
    loop {
        for _ in 0..TURNS {
            if let Some(value) = ready() {
                return Ok(value);
            }
            hint::spin_loop();
        }
        let now = Instant::now();
        anyhow::ensure!(
            now < *deadline.get_or_insert(now + PATIENCE),
            "the other side does not answer"
        );
    }
}

/// Sleeps in the kernel until `word` differs from `seen`; never spins.
pub(crate) fn park_while(word: &AtomicU32, seen: u32, flags: futex::Flags) -> anyhow::Result<u32> {
    let deadline = Instant::now() + PATIENCE;
    let timeout = futex::Timespec {
        tv_sec: PATIENCE.as_secs() as i64,
        tv_nsec: 0,
    };
    loop {
        let now = word.load(Ordering::Acquire);
        if now != seen {
            return Ok(now);
        }
        match futex::wait(word, flags, seen, Some(&timeout)) {
            // The value differs, a signal arrived, or another thread sent a wake-up: look again.
            Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::TIMEDOUT) => anyhow::bail!("the other side does not answer"),
            Err(error) => return Err(error.into()),
        }
        anyhow::ensure!(Instant::now() < deadline, "the other side does not answer");
    }
}
