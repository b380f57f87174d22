//! Permits to spin: one for each core of the host, counted over all processes of one user, so that two graphs, or a graph and a runtime,
//! do not spin as if each had the cores alone.
//!
//! A waiter looks for a moment in any case. Before it spins on, it takes the permit of the core that it runs on. If another thread has
//! waited there a moment ago, more threads want the core than can spin on it: this waiter yields, and then parks. The core counts as
//! contested for some milliseconds, in which the threads that have waited on it yield too, because a thread that gets its answers at
//! once never asks for a permit.
//!
//! A permit is a moment: that until which its core is taken. So nobody has to give it back, and a process that is killed keeps it no
//! longer than that. Whoever finds nothing gives it back before it parks.
//!
//! - `PERMIT-1`: of two threads that take a permit, one gets it: both replace the moment that they have read.
//! - `PERMIT-2`: a moment that has passed, or that lies further ahead than any permit lasts, holds nothing. Other processes write this
//!   memory, so every value is checked so.
//! - `PERMIT-3`: whoever has lost a permit neither extends nor ends that of the next holder, whose moment is a later one.
//!
//! Model: `tests/loom.rs`.

#[cfg(not(loom))]
use std::cell::Cell;
#[cfg(not(loom))]
use std::sync::OnceLock;
#[cfg(not(loom))]
use std::time::{Duration, Instant};

#[cfg(not(loom))]
use crate::platform::clock::now_ns;
#[cfg(not(loom))]
use crate::platform::cores::current_core;
use crate::sync::{AtomicU64, Ordering};

/// The time for which a permit is held since it was taken or extended: two spins of the default length, so that a thread that computes for
/// a short time keeps its core's permit meanwhile.
const TERM_NS: u64 = 200_000;
/// The time for which a core counts as contested. Longer than a thread has to wait for a core that another one spins on.
const CONTESTED_NS: u64 = 5_000_000;

/// The permit of one core. Times are those of the monotonic clock, in nanoseconds, which all processes of a host share; they are
/// parameters, so that a model can choose them.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct CorePermit {
    /// The moment until which a thread holds the permit. All orderings are relaxed: no other data depend on this word.
    held_until: AtomicU64,
    /// The moment until which threads that wait here yield. Relaxed, as above.
    contested_until: AtomicU64,
}

impl CorePermit {
    /// Takes the permit, or extends that of the caller, who holds it until `held`; 0 if the caller does not. Returns the moment until which it is
    /// held now; `None` if another thread holds it.
    pub fn take(&self, held: u64, now: u64) -> Option<u64> {
        // Relaxed: see the field, as for the exchange (PERMIT-1).
        let current = self.held_until.load(Ordering::Relaxed);
        let until = now.saturating_add(TERM_NS);
        if current != held && is_ahead(current, now, TERM_NS) {
            return None;
        }
        let exchanged =
            self.held_until
                .compare_exchange(current, until, Ordering::Relaxed, Ordering::Relaxed);
        exchanged.is_ok().then_some(until)
    }

    /// Ends the permit of the caller, who held it until `held`.
    pub fn end(&self, held: u64) {
        // Relaxed: see the field. It fails if another thread holds it (PERMIT-3).
        let _ = self
            .held_until
            .compare_exchange(held, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether a thread holds the permit.
    pub fn is_held(&self, now: u64) -> bool {
        // Relaxed: see the field.
        is_ahead(self.held_until.load(Ordering::Relaxed), now, TERM_NS)
    }

    /// Has the threads that wait on this core yield for some milliseconds.
    pub fn contest(&self, now: u64) {
        // Relaxed: see the field.
        self.contested_until
            .store(now.saturating_add(CONTESTED_NS), Ordering::Relaxed);
    }

    /// Whether threads that wait on this core yield.
    pub fn is_contested(&self, now: u64) -> bool {
        // Relaxed: see the field, as for the exchange.
        let until = self.contested_until.load(Ordering::Relaxed);
        let is_contested = is_ahead(until, now, CONTESTED_NS);
        if until != 0 && !is_contested {
            // If this fails, somebody has contested the core anew.
            let _ = self
                .contested_until
                .compare_exchange(until, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
        is_contested
    }
}

/// Whether the moment `until` has yet to come, in `term` at most (PERMIT-2).
fn is_ahead(until: u64, now: u64, term: u64) -> bool {
    until > now && until - now <= term
}

#[cfg(not(loom))]
thread_local! {
    static OWN: Own = const {
        Own {
            permit: Cell::new(None),
            held: Cell::new(0),
            fresh_until: Cell::new(None),
        }
    };
}

/// The knowledge of a thread about its permit.
#[cfg(not(loom))]
struct Own {
    /// The permit of the core on which the thread last asked.
    permit: Cell<Option<&'static CorePermit>>,
    /// The moment until which the thread holds that permit; 0 if it does not.
    held: Cell<u64>,
    /// The moment until which the thread need not ask again.
    fresh_until: Cell<Option<Instant>>,
}

#[cfg(not(loom))]
impl Own {
    #[cold]
    fn take(&self, now: Instant) -> bool {
        match permits().get(current_core() as usize) {
            Some(permit) => self.take_here(permit, now),
            // A core that nobody counts.
            None => true,
        }
    }

    fn take_here(&self, permit: &'static CorePermit, now: Instant) -> bool {
        if self
            .permit
            .get()
            .is_some_and(|before| !std::ptr::eq(before, permit))
        {
            self.end();
        }
        self.permit.set(Some(permit));
        let now_ns = now_ns();
        let taken = permit.take(self.held.get(), now_ns);
        self.held.set(taken.unwrap_or(0));
        let fresh = taken.and_then(|_| now.checked_add(Duration::from_nanos(TERM_NS / 2)));
        self.fresh_until.set(fresh);
        if taken.is_none() {
            permit.contest(now_ns);
        }
        taken.is_some()
    }

    fn end(&self) {
        self.fresh_until.set(None);
        let held = self.held.replace(0);
        if let Some(permit) = self.permit.get()
            && held != 0
        {
            permit.end(held);
        }
    }
}

/// The permits of the host; none if the system has no memory for them: then each process spins as if it had the cores alone.
#[cfg(not(loom))]
fn permits() -> &'static [CorePermit] {
    static PERMITS: OnceLock<&[CorePermit]> = OnceLock::new();
    PERMITS.get_or_init(|| crate::platform::user_memory::core_permits().unwrap_or_default())
}

/// Opens the memory of the permits, which takes files and allocations, so that no wait has to.
#[cfg(not(loom))]
pub(crate) fn prepare() {
    permits();
}

/// Whether this thread may spin on: it holds the permit of its core, or takes it. For a thread that has looked for a moment already.
#[cfg(not(loom))]
#[doc(hidden)] // for the crates above this one
#[inline]
pub fn may_spin(now: Instant) -> bool {
    OWN.with(|own| own.fresh_until.get().is_some_and(|until| now < until) || own.take(now))
}

/// Gives the permit of this thread back, which is about to park.
#[cfg(not(loom))]
#[doc(hidden)] // for the crates above this one
#[inline]
pub fn ends_spinning() {
    OWN.with(Own::end);
}

/// Whether more threads want the core on which this thread last asked than can spin there.
#[cfg(not(loom))]
#[inline]
pub(crate) fn is_contested() -> bool {
    OWN.with(|own| match own.permit.get() {
        // Relaxed: see the field.
        Some(permit) => permit.contested_until.load(Ordering::Relaxed) != 0 && permit.is_contested(now_ns()),
        None => false,
    })
}

/// The number of cores of this host on which a thread holds the permit to spin, of all processes of this user.
#[cfg(not(loom))]
#[must_use]
pub fn spinning_cores() -> usize {
    let now = now_ns();
    permits().iter().filter(|permit| permit.is_held(now)).count()
}

#[cfg(loom)]
pub(crate) fn prepare() {}

#[cfg(loom)]
pub(crate) fn may_spin(_: std::time::Instant) -> bool {
    true
}

#[cfg(loom)]
pub(crate) fn ends_spinning() {}

#[cfg(loom)]
pub(crate) fn is_contested() -> bool {
    false
}

#[cfg(all(test, not(loom)))]
#[path = "spin_permit_tests.rs"]
mod spin_permit_tests;
