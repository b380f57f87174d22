//! Doorbells: one waiter, many ringers.
//!
//! A word holds whether the waiter is asleep. The waiter sets it to asleep, executes a fence, checks its condition once
//! more, and only then sleeps. A ringer publishes its change, executes a fence, and reads the word (Dekker's pattern).
//! The side whose fence comes second in the single order of SeqCst fences sees the write of the other side, so no
//! wake-up is lost:
//!
//! - `BELL-1` between setting "asleep" and the futex call, the waiter checks its condition.
//! - `BELL-2` a ringer that finds the word "asleep" sets it to awake before it wakes the waiter, so the futex call
//!   returns.
//! - `BELL-3` a ringer never waits: neither for the waiter, nor for another ringer, nor for a dead process.
//! - `BELL-4` a ringer that dies after it has set the word to awake, and before it has woken the waiter, leaves a waiter
//!   asleep that no ring wakes. So who tells of the death of a process rouses the waiter, whatever the word says.
//!
//! A ringer that wakes the waiter also stores the number of its own core beside the word. So the waiter can tell
//! whether both run on one core.
//!
//! A wake-up may be spurious (from a slow ringer), so the waiter always checks its condition again. Model:
//! `tests/loom.rs`.

use std::time::Instant;

#[cfg(not(loom))]
use crate::error::SegmentError;
#[cfg(not(loom))]
use crate::memory::region::Region;
#[cfg(not(loom))]
use crate::platform::cores::current_core;
use crate::sync::{Arc, AtomicU32, Ordering, fence};
#[cfg(not(loom))]
use crate::wait::berth::Berth;
use crate::wait::futex;
use crate::wait::waiting::Waiting;

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

/// The offset, in a region, of the core of the last ringer that woke the waiter: its number plus one, or 0 if nobody
/// has woken the waiter since it last asked.
#[cfg(not(loom))]
const CORE_AT: usize = 4;

#[repr(align(64))]
struct BellLine {
    word: AtomicU32,
    #[cfg(not(loom))]
    ringer_core: AtomicU32,
    #[cfg(loom)]
    sleeper: futex::Sleeper,
}

#[derive(Clone)]
enum BellPlace {
    Heap(Arc<BellLine>),
    #[cfg(not(loom))]
    Region(Region),
}

/// A doorbell: one waiter, such as a lane, sleeps on it, and any thread can ring it. All clones are the same doorbell.
#[derive(Clone)]
pub struct Doorbell {
    place: BellPlace,
    /// The place where the waiter sleeps, if that is not the word.
    #[cfg(not(loom))]
    berth: Option<Arc<dyn Berth>>,
}

impl std::fmt::Debug for Doorbell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Doorbell")
    }
}

impl Doorbell {
    /// The size of a doorbell in a region, in bytes.
    pub const BYTES: usize = 64;

    /// Makes a doorbell for the threads of this process.
    pub fn heap() -> Self {
        let line = BellLine {
            word: AtomicU32::new(AWAKE),
            #[cfg(not(loom))]
            ringer_core: AtomicU32::new(0),
            #[cfg(loom)]
            sleeper: futex::Sleeper::new(),
        };
        Doorbell {
            place: BellPlace::Heap(Arc::new(line)),
            #[cfg(not(loom))]
            berth: None,
        }
    }

    /// The doorbell at the start of `region`. The region of a new doorbell must be zeroed.
    ///
    /// # Errors
    /// [`SegmentError::OutOfBounds`] if the region is too short.
    #[cfg(not(loom))]
    pub fn at(region: Region) -> Result<Self, SegmentError> {
        let region = region.sub(0, Self::BYTES)?;
        region.atomic_u32(0)?;
        region.atomic_u32(CORE_AT)?;
        Ok(Doorbell {
            place: BellPlace::Region(region),
            berth: None,
        })
    }

    /// Has the waiter sleep in a berth. Handles that were cloned before, and those of other processes, do not wake it there.
    #[cfg(not(loom))]
    #[must_use]
    pub fn with_berth(self, berth: Arc<dyn Berth>) -> Self {
        Doorbell {
            berth: Some(berth),
            ..self
        }
    }

    /// The word of the doorbell. Never `None`: `at` has checked the region.
    #[inline]
    fn word(&self) -> Option<&AtomicU32> {
        match &self.place {
            BellPlace::Heap(line) => Some(&line.word),
            #[cfg(not(loom))]
            BellPlace::Region(region) => region.atomic_u32(0).ok(),
        }
    }

    /// The word with the core of the last ringer that woke the waiter, plus one. Never `None`: `at` has checked the
    /// region.
    #[cfg(not(loom))]
    fn ringer_core(&self) -> Option<&AtomicU32> {
        match &self.place {
            BellPlace::Heap(line) => Some(&line.ringer_core),
            BellPlace::Region(region) => region.atomic_u32(CORE_AT).ok(),
        }
    }

    /// Whether the calling thread, which must be the waiter, was woken from the core that it runs on. `None` if nobody
    /// has woken it since the last call.
    #[cfg(not(loom))]
    pub(crate) fn woken_on_own_core(&self) -> Option<bool> {
        // Relaxed: the ringer stores its core before the swap in `wake_up`, and the waiter has seen that swap. A late
        // store of another ringer is just as good.
        let core = self.ringer_core()?.swap(0, Ordering::Relaxed);
        (core != 0).then(|| core == current_core().wrapping_add(1))
    }

    #[cfg(not(loom))]
    fn reach(&self) -> futex::Reach {
        match &self.place {
            BellPlace::Heap(_) => futex::Reach::Process,
            BellPlace::Region(_) => futex::Reach::Host,
        }
    }

    #[cfg(loom)]
    fn reach(&self) -> &futex::Sleeper {
        let BellPlace::Heap(line) = &self.place;
        &line.sleeper
    }

    /// Wakes the waiter if it sleeps. Call this after publishing the change that the waiter waits for.
    #[inline]
    pub fn ring(&self) {
        // SYNC bell: pairs with the fence in `park`; orders the caller's publication before the load of the word.
        // Release and acquire are not enough: they allow the load to come first.
        fence(Ordering::SeqCst);
        self.wake_sleeper();
    }

    /// Rings every doorbell of `bells`, with one fence for all.
    #[inline]
    pub(crate) fn ring_all(bells: &[Doorbell]) {
        // SYNC bell.
        fence(Ordering::SeqCst);
        bells.iter().for_each(Doorbell::wake_sleeper);
    }

    /// Rings every doorbell of `bells` except number `own`, with one fence for all.
    #[cfg(not(loom))]
    #[inline]
    pub fn ring_all_but(bells: &[Doorbell], own: usize) {
        // SYNC bell.
        fence(Ordering::SeqCst);
        let others = bells.iter().enumerate().filter(|(index, _)| *index != own);
        others.for_each(|(_, bell)| bell.wake_sleeper());
    }

    /// Wakes the waiter if it sleeps, without the fence of [`ring`](Self::ring): the caller has already executed it.
    #[inline]
    pub(crate) fn wake_sleeper(&self) {
        if let Some(word) = self.word()
            // Relaxed: the caller's fence orders it (BELL-1).
            && word.load(Ordering::Relaxed) == ASLEEP
        {
            self.wake_up(word);
        }
    }

    /// Claims the wake-up of a waiter that sleeps elsewhere than at the doorbell: returns whether it sleeps, and the caller has to
    /// wake it. Call this after publishing the change that the waiter waits for.
    #[must_use]
    #[inline]
    pub fn claim(&self) -> bool {
        // SYNC bell: as in `ring`.
        fence(Ordering::SeqCst);
        self.word().is_some_and(|word| {
            // Relaxed: the fence orders it (BELL-1). Of several concurrent claims, one is granted (BELL-2). SYNC bell-word.
            word.load(Ordering::Relaxed) == ASLEEP && word.swap(AWAKE, Ordering::AcqRel) == ASLEEP
        })
    }

    #[cold]
    fn wake_up(&self, word: &AtomicU32) {
        #[cfg(not(loom))]
        if let (None, Some(core)) = (&self.berth, self.ringer_core()) {
            // Relaxed: a hint; the swap of the word below publishes it.
            core.store(current_core().wrapping_add(1), Ordering::Relaxed);
        }
        // Of several concurrent ringers, one makes the system call (BELL-2). SYNC bell-word.
        if word.swap(AWAKE, Ordering::AcqRel) == ASLEEP {
            #[cfg(not(loom))]
            crate::fault_point::at("bell: before the wake");
            self.end_sleep(word);
        }
    }

    /// Wakes the waiter where it sleeps.
    fn end_sleep(&self, word: &AtomicU32) {
        #[cfg(not(loom))]
        if let Some(berth) = &self.berth {
            return berth.wake();
        }
        futex::wake(word, self.reach());
    }

    /// Sleeps as long as the word says so, at most until the deadline. May return sooner.
    fn sleep_until(&self, word: &AtomicU32, deadline: Option<Instant>) {
        #[cfg(not(loom))]
        if let Some(berth) = &self.berth {
            // SYNC bell-word: as in `sleep`.
            return berth.sleep(deadline, &|| word.load(Ordering::Acquire) != ASLEEP);
        }
        futex::wait(word, ASLEEP, deadline, self.reach());
    }

    /// Waits until `ready` returns `true`; returns `false` if the deadline passes first. `ready` is called at least
    /// once, again after every wake-up, and once more after the deadline has passed.
    #[inline]
    pub fn wait(
        &self,
        waiting: &Waiting,
        deadline: Option<Instant>,
        mut ready: impl FnMut() -> bool,
    ) -> bool {
        ready() || waiting.spin(deadline, &mut ready) || self.park(deadline, &mut ready)
    }

    /// Announces sleep. The caller checks its condition next. Then another thread may sleep in its place, or
    /// whoever [claims](Self::claim) the wake-up wakes it elsewhere.
    #[inline]
    pub fn announce(&self) {
        if let Some(word) = self.word() {
            // SYNC bell-word, and SYNC bell: as in `park`.
            word.swap(ASLEEP, Ordering::AcqRel);
            fence(Ordering::SeqCst);
        }
    }

    /// Withdraws the announcement of sleep.
    #[inline]
    pub fn retract(&self) {
        if let Some(word) = self.word() {
            // Relaxed: a ringer that still reads `ASLEEP` makes a needless system call.
            word.store(AWAKE, Ordering::Relaxed);
        }
    }

    /// Sleeps until a ring that comes after the announcement.
    #[cfg(not(loom))]
    pub(crate) fn sleep(&self) {
        let Some(word) = self.word() else { return };
        // SYNC bell-word: pairs with the swap in `wake_up`; the ringer's publication happens before it.
        while word.load(Ordering::Acquire) == ASLEEP {
            self.sleep_until(word, None);
        }
    }

    /// Wakes the waiter whatever the word says: at the end of a `sleep`, and after the death of a process that may have
    /// rung (`BELL-4`). Call this after publishing the change that the waiter waits for.
    #[cfg(not(loom))]
    pub fn rouse(&self) {
        if let Some(word) = self.word() {
            // SYNC bell-word: pairs with the load in `sleep`, and with the swap in `park`: a waiter that goes to sleep after
            // this sees the caller's publication in its check.
            word.swap(AWAKE, Ordering::AcqRel);
            self.end_sleep(word);
        }
    }

    fn park(&self, deadline: Option<Instant>, ready: &mut impl FnMut() -> bool) -> bool {
        let Some(word) = self.word() else { return ready() };
        loop {
            // SYNC bell-word: pairs with the swap in `wake_up`. A relaxed store would be enough, because only the
            // single modification order of the word matters; loom does not model that order, and this path is not hot.
            word.swap(ASLEEP, Ordering::AcqRel);
            // SYNC bell: pairs with the fence in `ring`; orders the store of "asleep" before the check of the condition
            // (BELL-1).
            fence(Ordering::SeqCst);
            let found = ready();
            if found || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                word.store(AWAKE, Ordering::Relaxed);
                return found;
            }
            self.sleep_until(word, deadline);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize};
    use std::thread;
    use std::time::Duration;

    #[test]
    fn wait_that_is_ready_returns_at_once() {
        for waiting in [Waiting::Spin, Waiting::Park, Waiting::auto(1)] {
            assert!(Doorbell::heap().wait(&waiting, Some(Instant::now()), || true));
        }
    }

    #[test]
    fn chan_05_a_deadline_ends_every_kind_of_wait() {
        let short = Duration::from_millis(5);
        for waiting in [
            Waiting::Spin,
            Waiting::Park,
            Waiting::SpinThenPark(Duration::from_millis(1)),
        ] {
            let deadline = Instant::now() + short;
            assert!(!Doorbell::heap().wait(&waiting, Some(deadline), || false));
            assert!(Instant::now() >= deadline);
        }
    }

    #[test]
    fn ring_wakes_a_parked_waiter() {
        let (bell, open) = (Doorbell::heap(), std::sync::Arc::new(AtomicBool::new(false)));
        let ringer = thread::spawn({
            let (bell, open) = (bell.clone(), open.clone());
            move || {
                thread::sleep(Duration::from_millis(2));
                open.store(true, Ordering::Relaxed);
                bell.ring();
            }
        });
        assert!(bell.wait(&Waiting::Park, None, || open.load(Ordering::Relaxed)));
        ringer.join().unwrap();
    }

    #[test]
    fn two_waiters_pass_a_number_to_and_fro_without_losing_a_ring() {
        let rounds = if cfg!(miri) { 20 } else { 20_000 };
        let (number, bells) = (AtomicUsize::new(0), [Doorbell::heap(), Doorbell::heap()]);
        let play = |side: usize| {
            for round in 0..rounds {
                let mine = 2 * round + side;
                assert!(bells[side].wait(&Waiting::Park, None, || number.load(Ordering::Acquire) == mine));
                number.store(mine + 1, Ordering::Release);
                bells[1 - side].ring();
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| play(1));
            play(0);
        });
        assert_eq!(number.into_inner(), 2 * rounds);
    }

    #[test]
    #[cfg(not(miri))] // Miri has one core
    #[cfg_attr(
        any(selvedge_portable, not(target_os = "linux")),
        ignore = "it needs the number of a core"
    )]
    fn a_waiter_knows_whether_it_was_woken_from_its_own_core() {
        use crate::platform::cores::pinned::{cores, stay_on};
        let mut cores = cores().into_iter();
        let first = cores.next().unwrap();
        for (ringer, waiter) in [Some((first, first)), cores.next().map(|second| (first, second))]
            .into_iter()
            .flatten()
        {
            let bell = Doorbell::heap();
            let rings = || {
                stay_on(ringer);
                bell.ring();
            };
            let waits = || {
                stay_on(waiter);
                assert_eq!(bell.woken_on_own_core(), None, "nobody rang");
                bell.announce();
                thread::scope(|scope| scope.spawn(rings).join()).unwrap();
                bell.sleep();
                assert_eq!(bell.woken_on_own_core(), Some(ringer == waiter));
                assert_eq!(bell.woken_on_own_core(), None, "it is said once");
            };
            thread::scope(|scope| scope.spawn(waits).join()).unwrap();
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no memfd")]
    #[cfg_attr(
        any(selvedge_portable, not(target_os = "linux")),
        ignore = "it needs memory between processes"
    )]
    fn ring_reaches_a_waiter_through_another_mapping_of_the_same_memory() {
        use crate::memory::segment::{Provider, SEGMENT_HEADER_BYTES, Segment};
        let maker = Segment::create(Provider::Memfd, SEGMENT_HEADER_BYTES + Doorbell::BYTES).unwrap();
        let other = Segment::open(&maker.id().unwrap()).unwrap();
        let bell = |segment: &Segment| {
            let region = segment.part(SEGMENT_HEADER_BYTES, Doorbell::BYTES).unwrap();
            Doorbell::at(region).unwrap()
        };
        let open = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| assert!(bell(&maker).wait(&Waiting::Park, None, || open.load(Ordering::Relaxed))));
            thread::sleep(Duration::from_millis(2));
            open.store(true, Ordering::Relaxed);
            bell(&other).ring();
        });
    }

    #[test]
    fn chan_25_ringing_a_dead_waiter_does_not_wait() {
        let bell = Doorbell::heap();
        bell.word().unwrap().store(ASLEEP, Ordering::Relaxed);
        bell.ring();
        bell.ring();
        assert_eq!(bell.word().unwrap().load(Ordering::Relaxed), AWAKE);
    }
}
