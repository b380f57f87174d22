//! Futexes: a thread sleeps on a word until another thread changes it. The platform has them; under loom and shuttle a
//! model takes their place.

#[cfg(not(loom))]
pub(crate) use crate::platform::futex::{Reach, relax, wait, wake};

#[cfg(loom)]
pub(crate) use model::{Sleeper, relax, wait, wake};

#[cfg(loom)]
mod model {
    use std::time::Instant;

    #[cfg(not(shuttle))]
    use loom::{
        sync::atomic::{AtomicU32, Ordering},
        sync::{Condvar, Mutex},
        thread,
    };
    #[cfg(shuttle)]
    use shuttle::{
        sync::atomic::{AtomicU32, Ordering},
        sync::{Condvar, Mutex},
        thread,
    };

    /// A model of the kernel's side of a futex: the check of the word and the sleep are one atomic step.
    pub(crate) struct Sleeper {
        lock: Mutex<()>,
        woken: Condvar,
    }

    impl Sleeper {
        pub(crate) fn new() -> Self {
            Sleeper {
                lock: Mutex::new(()),
                woken: Condvar::new(),
            }
        }
    }

    pub(crate) fn wait(word: &AtomicU32, expected: u32, _deadline: Option<Instant>, sleeper: &Sleeper) {
        let guard = sleeper
            .lock
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        // Relaxed: the lock orders it after the store of a ringer that had the lock before; a later one notifies.
        if word.load(Ordering::Relaxed) == expected {
            drop(sleeper.woken.wait(guard));
        }
    }

    pub(crate) fn wake(_word: &AtomicU32, sleeper: &Sleeper) {
        drop(sleeper.lock.lock());
        sleeper.woken.notify_one();
    }

    pub(crate) fn relax() {
        thread::yield_now();
    }
}
