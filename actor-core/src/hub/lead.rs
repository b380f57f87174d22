//! The lead: one of the threads that wait for letters reads the links meanwhile, so that no other thread has to wake it.
//!
//! Whoever is about to wait takes the lead if nobody has it. The thread that leads waits for the bytes of all links at once,
//! and gives the lead back before it runs code of users. The links' tasks read while no thread waits here.

use std::cell::Cell;
use std::io;
use std::ptr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::lookout::{LedLinks, Lookout};
use crate::looking::Looking;
use crate::platform::lead_poll::{ARRIVALS_MAX, LeadPoll};
use crate::sync::{AtomicBool, AtomicU64, Doorbell, Mutex, Ordering, thread_local};

thread_local! {
    /// The lead that this thread has.
    static LED: Cell<*const Lead> = const { Cell::new(ptr::null()) };
}

/// The time after which a thread that has led is not expected to lead again soon: it has more to do than to send some hundred letters.
const LATELY: Duration = Duration::from_millis(1);

/// A link as the thread that leads sees it.
pub(super) trait LedLink: Send + Sync {
    /// Reads until no more bytes are left, or until `goes_on` says no: then the link's task has the rest.
    fn read_on(&self, goes_on: &dyn Fn() -> bool);

    /// Ends the wait of the thread that leads for this link.
    fn leave(&self, poll: &LeadPoll);

    /// Whether bytes can be seen without the system.
    fn is_watchable(&self) -> bool;

    /// Looks for bytes. Those of rings are seen to wait. To look at a socket costs as much as to read it, so what is there is read.
    fn look(&self) -> LinkLook;

    /// The thread that leads looks for bytes from now on, so nobody is told of them.
    fn watch(&self);

    /// The thread that leads looks no more. Returns whether there are bytes that nobody reads, and of which nobody is told.
    fn unwatch(&self) -> bool;

    /// Leaves the bytes that are there to the link's task.
    fn leave_rest(&self);
}

/// The outcome of a look at a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkLook {
    /// Nothing is there, or another thread reads it.
    Nothing,
    /// Bytes wait.
    Bytes,
    /// Bytes were read. Others may wait behind them, which the next look finds.
    Read,
}

/// The lead of a process.
pub(crate) struct Lead {
    /// Made with the first link.
    poll: OnceLock<LeadPoll>,
    is_taken: AtomicBool,
    /// The number of times that a thread has taken the lead.
    taken: AtomicU64,
    /// The doorbell of the thread that leads, which sleeps in the system.
    bell: Doorbell,
    /// Whether somebody has nudged since the last wait.
    is_nudged: AtomicBool,
    links: Mutex<LedLinks>,
}

/// A link's place in the list of the thread that leads. The drop takes it off.
pub(super) struct LeadPlace {
    lead: Arc<Lead>,
    name: u64,
    /// The number of times that the lead had been taken at the last look.
    seen: u64,
    /// The moment until which a thread has led lately.
    until: Instant,
}

/// The right to lead. The drop gives it back.
pub(crate) struct Leading<'a> {
    lead: &'a Lead,
    poll: &'a LeadPoll,
    lookout: Lookout,
    /// The way in which the thread looks at all links before it sleeps; `None` if it looks at those that the process looks at.
    looking: Option<Looking>,
    /// Whether the system refuses the wait. The lead is not taken any more then.
    is_broken: Cell<bool>,
}

/// The links at which bytes have arrived. They are read by [`Leading::read`] before the lead is given back, because nobody
/// else was told of them.
#[must_use]
pub(crate) struct Arrivals {
    names: [u64; ARRIVALS_MAX],
    count: usize,
    /// Whether there may be more.
    is_full: bool,
}

impl Default for Lead {
    fn default() -> Self {
        Lead {
            poll: OnceLock::new(),
            is_taken: AtomicBool::new(false),
            taken: AtomicU64::new(0),
            bell: Doorbell::heap(),
            is_nudged: AtomicBool::new(false),
            links: Mutex::default(),
        }
    }
}

impl Lead {
    /// The wait of the thread that leads; it is made if there is none.
    pub(super) fn poll(&self) -> io::Result<&LeadPoll> {
        if let Some(poll) = self.poll.get() {
            return Ok(poll);
        }
        let poll = LeadPoll::new()?;
        Ok(self.poll.get_or_init(|| poll))
    }

    /// Lists a link. Returns its name as well.
    pub(super) fn list(self: &Arc<Self>, link: Arc<dyn LedLink>) -> (LeadPlace, u64) {
        let name = self.links.lock().list(link);
        let lead = Arc::clone(self);
        // Relaxed: as in `LeadPlace::was_led_lately`.
        let seen = lead.taken.load(Ordering::Relaxed);
        let place = LeadPlace {
            lead,
            name,
            seen,
            until: Instant::now(),
        };
        (place, name)
    }

    /// Sets the number of processes that may wait for each other. The thread that leads looks for bytes for a while before it sleeps,
    /// if each of them can have a core of its own.
    pub(super) fn set_processes(&self, processes: usize) {
        self.links.lock().set_processes(processes);
    }

    /// Sets the time for which the thread that leads looks for bytes; `None` lets the number of processes decide.
    pub(super) fn set_spin(&self, spin: Option<Duration>) {
        self.links.lock().set_spin(spin);
    }

    /// Takes the lead. `None` if another thread has it, or if there is no link.
    pub(crate) fn take(&self) -> Option<Leading<'_>> {
        let poll = self.poll.get()?;
        // Acquire: the last leader has ended its wait.
        if self.is_taken.swap(true, Ordering::Acquire) {
            return None;
        }
        // Relaxed: `LeadPlace::was_led_lately` is a hint.
        self.taken.fetch_add(1, Ordering::Relaxed);
        LED.with(|led| led.set(ptr::from_ref(self)));
        Some(Leading {
            lead: self,
            poll,
            lookout: Lookout::default(),
            looking: None,
            is_broken: Cell::new(false),
        })
    }

    /// Whether a thread has the lead.
    #[cfg(test)]
    pub(super) fn is_taken(&self) -> bool {
        // Relaxed: the test waits for nothing else that the leader has done.
        self.is_taken.load(Ordering::Relaxed)
    }

    /// Ends the present wait of the thread that leads, or its next one; nothing happens if that is the calling thread.
    pub(crate) fn nudge(&self) {
        if LED.with(Cell::get) != ptr::from_ref(self)
            && let Some(poll) = self.poll.get()
        {
            // SYNC lead-nudged: the Release pairs with the swaps of the thread that leads. The doorbell has the order between the store
            // and the sleep (BELL-1).
            self.is_nudged.store(true, Ordering::Release);
            if self.bell.claim() {
                poll.ring();
            }
        }
    }
}

impl Arrivals {
    fn none() -> Self {
        Arrivals {
            names: [0; ARRIVALS_MAX],
            count: 0,
            is_full: false,
        }
    }

    /// Adds a link, if there is a place.
    fn add(&mut self, name: u64) -> bool {
        let place = self.names.get_mut(self.count);
        let has_place = place.map(|place| *place = name).is_some();
        self.count += usize::from(has_place);
        has_place
    }
}

impl Leading<'_> {
    /// Has the thread look at all links before it sleeps, in this way.
    pub(crate) fn look_at_all(&mut self, looking: Looking) {
        self.looking = Some(looking);
    }

    /// Waits until bytes arrive, somebody [nudges](Lead::nudge), or the moment has come. `None` if the moment has passed and nothing was
    /// there, or if the system refuses the wait.
    pub(crate) fn wait(&self, until: Option<Instant>) -> Option<Arrivals> {
        self.look_out(until).or_else(|| self.sleep(until))
    }

    /// Looks for bytes for a while. `None` if there are none.
    fn look_out(&self, until: Option<Instant>) -> Option<Arrivals> {
        let mut arrivals = Arrivals::none();
        let lookout = self.lead.links.lock().lookout(self.looking);
        let Some(lookout) = lookout else {
            // The wait before this one may have looked.
            self.lookout.end(|name, link| {
                if !arrivals.add(name) {
                    link.leave_rest();
                }
            });
            return (arrivals.count > 0).then_some(arrivals);
        };
        // Relaxed: the swap below has the order.
        let is_nudged = || self.lead.is_nudged.load(Ordering::Relaxed);
        let is_over = self.lookout.look_out(lookout, until, is_nudged, |name| {
            if !arrivals.add(name) {
                self.leave_rest(name);
            }
        });
        if !is_over {
            return None;
        }
        self.take_nudge();
        Some(arrivals)
    }

    fn leave_rest(&self, name: u64) {
        let link = self.lead.links.lock().find(name);
        if let Some(link) = link {
            link.leave_rest();
        }
    }

    /// Sleeps in the system. `None` if the moment has passed.
    fn sleep(&self, until: Option<Instant>) -> Option<Arrivals> {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return None;
        }
        self.lead.bell.announce();
        let is_nudged = self.take_nudge();
        let arrivals = match is_nudged {
            true => self.arrivals(Some(Duration::ZERO)),
            false => self.arrivals(left),
        };
        self.lead.bell.retract();
        self.take_nudge();
        arrivals
    }

    /// Returns whether somebody has nudged since the last call.
    fn take_nudge(&self) -> bool {
        // SYNC lead-nudged, acquire: what the one who nudged has changed is seen from here on, be it under a lock or not.
        self.lead.is_nudged.swap(false, Ordering::AcqRel)
    }

    fn arrivals(&self, timeout: Option<Duration>) -> Option<Arrivals> {
        let mut arrivals = Arrivals::none();
        // No wait reports more than there are places.
        let waited = self.poll.wait(timeout, |name| _ = arrivals.add(name));
        self.is_broken.set(waited.is_err());
        arrivals.is_full = waited.ok()?;
        Some(arrivals)
    }

    /// The number of waits beside the first one in which what had arrived by then is reported. Nobody else was told of that;
    /// what arrives later is told to others too. A nudge may take one place of each wait.
    fn rounds_max(&self) -> usize {
        self.lead.links.lock().len() / (ARRIVALS_MAX - 1)
    }

    /// Reads the links, as far as `goes_on` says; the links' tasks have the rest.
    pub(crate) fn read(&self, mut arrivals: Arrivals, goes_on: impl Fn() -> bool) {
        let mut rounds = 0;
        loop {
            let is_alone = arrivals.count == 1;
            for name in arrivals.names.iter().take(arrivals.count) {
                let link = self.lead.links.lock().find(*name);
                if let Some(link) = link {
                    link.read_on(&|| is_alone && goes_on());
                }
            }
            rounds += 1;
            if !arrivals.is_full || rounds > self.rounds_max() {
                return;
            }
            match self.arrivals(Some(Duration::ZERO)) {
                Some(more) => arrivals = more,
                None => return,
            }
        }
    }
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        self.lookout.end(|_, link| link.leave_rest());
        LED.with(|led| led.set(ptr::null()));
        // Release: this thread has ended its wait.
        self.lead.is_taken.store(self.is_broken.get(), Ordering::Release);
    }
}

impl LeadPlace {
    /// Whether a thread has taken the lead since the last call of this, or had done so at a call within the last millisecond.
    pub(super) fn was_led_lately(&mut self) -> bool {
        // Relaxed: a hint.
        let (taken, now) = (self.lead.taken.load(Ordering::Relaxed), Instant::now());
        if std::mem::replace(&mut self.seen, taken) != taken {
            self.until = now + LATELY;
        }
        now < self.until
    }
}

impl Drop for LeadPlace {
    fn drop(&mut self) {
        let removed = self.lead.links.lock().remove(self.name);
        if let (Some(link), Some(poll)) = (removed, self.lead.poll.get()) {
            link.leave(poll);
        }
    }
}
