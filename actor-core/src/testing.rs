//! What the tests of several modules have in common.

use std::thread;
use std::time::{Duration, Instant};

use selvedge_cluster::peer::{Peer, ProcessId};

/// A process in its first life.
pub(crate) fn peer(number: u32) -> Peer {
    ProcessId::new(number).unwrap().first_life()
}

/// Waits until there is something.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let late = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(it) = look() {
            return it;
        }
        assert!(Instant::now() < late, "never: {what}");
        thread::yield_now();
    }
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for(what, || is_so().then_some(()));
}
