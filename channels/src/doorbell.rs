//! One waiter, any number of ringers.
//!
//! A word says whether the waiter sleeps. The waiter announces sleep, fences, looks once more, and only then
//! sleeps; a ringer publishes, fences, and looks at the word (Dekker's pattern). Whichever fence comes second in
//! the single order of SeqCst fences sees the other side's write, so a wake-up is never lost:
//!
//! - `BELL-1` between "asleep" and the futex call the waiter has looked at its condition.
//! - `BELL-2` a ringer that finds the word "asleep" sets it awake before it wakes, so the futex call returns.
//!
//! Model: `tests/loom.rs`.

use std::time::Instant;

use crate::error::SegmentError;
use crate::region::Region;
use crate::sync::{Arc, AtomicU32, Ordering, fence};
use crate::waiting::Waiting;

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

#[repr(align(64))]
struct Line(AtomicU32, #[cfg(loom)] crate::futex::Sleeper);

#[derive(Clone)]
enum Place {
    Heap(Arc<Line>),
    #[cfg_attr(loom, allow(dead_code))]
    Region(Region),
}

/// What a lane sleeps on. Clones ring and wait for the same waiter.
#[derive(Clone)]
pub struct Doorbell {
    place: Place,
}

impl std::fmt::Debug for Doorbell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Doorbell")
    }
}

impl Doorbell {
    /// Bytes of a doorbell in a region.
    pub const BYTES: usize = 64;

    /// A doorbell for the threads of this process.
    pub fn heap() -> Self {
        #[cfg(not(loom))]
        let line = Line(AtomicU32::new(AWAKE));
        #[cfg(loom)]
        let line = Line(AtomicU32::new(AWAKE), crate::futex::Sleeper::new());
        Doorbell {
            place: Place::Heap(Arc::new(line)),
        }
    }

    /// The doorbell that lies at the start of `region`, zeroed when new.
    ///
    /// # Errors
    /// [`SegmentError::OutOfBounds`] when the region is too short.
    pub fn at(region: Region) -> Result<Self, SegmentError> {
        region.atomic_u32(0)?;
        Ok(Doorbell {
            place: Place::Region(region),
        })
    }

    #[inline]
    #[cfg(not(loom))]
    fn word(&self) -> Option<&AtomicU32> {
        match &self.place {
            Place::Heap(line) => Some(&line.0),
            Place::Region(region) => region.atomic_u32(0).ok(),
        }
    }

    #[cfg(loom)]
    fn word(&self) -> Option<&AtomicU32> {
        match &self.place {
            Place::Heap(line) => Some(&line.0),
            Place::Region(_) => None,
        }
    }

    fn sleep(&self, word: &AtomicU32, deadline: Option<Instant>) {
        match &self.place {
            #[cfg(not(loom))]
            Place::Heap(_) => crate::futex::wait(word, ASLEEP, deadline, true),
            #[cfg(loom)]
            Place::Heap(line) => line.1.wait(word, ASLEEP, deadline),
            Place::Region(_) => crate::futex::wait(word, ASLEEP, deadline, false),
        }
    }

    fn wake(&self, word: &AtomicU32) {
        match &self.place {
            #[cfg(not(loom))]
            Place::Heap(_) => crate::futex::wake(word, true),
            #[cfg(loom)]
            Place::Heap(line) => line.1.wake(word),
            Place::Region(_) => crate::futex::wake(word, false),
        }
    }

    /// Wakes the waiter if it sleeps. Call it after publishing what the waiter waits for.
    #[inline]
    pub fn ring(&self) {
        let Some(word) = self.word() else { return };
        // SYNC bell: pairs with the fence in `wait`; orders the caller's publication before the look at the word.
        fence(Ordering::SeqCst);
        if word.load(Ordering::Relaxed) == ASLEEP && word.swap(AWAKE, Ordering::Relaxed) == ASLEEP {
            self.wake(word);
        }
    }

    /// Waits until `ready` says so; `false` when the deadline passed first. `ready` is called at least once, and
    /// again after every wake-up.
    #[inline]
    pub fn wait(
        &self,
        waiting: &Waiting,
        deadline: Option<Instant>,
        mut ready: impl FnMut() -> bool,
    ) -> bool {
        if ready() {
            return true;
        }
        if self.spin(waiting, deadline, &mut ready) {
            return true;
        }
        self.park(deadline, &mut ready)
    }

    fn spin(&self, waiting: &Waiting, deadline: Option<Instant>, ready: &mut impl FnMut() -> bool) -> bool {
        let budget = waiting.budget();
        if budget.is_some_and(|budget| budget.is_zero()) {
            return false;
        }
        let started = Instant::now();
        loop {
            for _ in 0..64 {
                if ready() {
                    return true;
                }
                crate::futex::relax();
            }
            let now = Instant::now();
            let spent = budget.is_some_and(|budget| now.duration_since(started) >= budget);
            if spent || deadline.is_some_and(|deadline| now >= deadline) {
                return false;
            }
        }
    }

    fn park(&self, deadline: Option<Instant>, ready: &mut impl FnMut() -> bool) -> bool {
        let Some(word) = self.word() else { return ready() };
        loop {
            word.store(ASLEEP, Ordering::Relaxed);
            // SYNC bell: pairs with the fence in `ring`; orders "asleep" before the look at the condition (BELL-1).
            fence(Ordering::SeqCst);
            let found = ready();
            if found || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                word.store(AWAKE, Ordering::Relaxed);
                return found;
            }
            self.sleep(word, deadline);
            word.store(AWAKE, Ordering::Relaxed);
            if ready() {
                return true;
            }
        }
    }
}
