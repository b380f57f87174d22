//! The lead: one of the threads that wait for letters reads the links meanwhile, so that no other thread has to wake it.
//!
//! Whoever is about to wait takes the lead if nobody has it. The thread that leads waits for the bytes of all links at once,
//! and gives the lead back before it runs code of users. The links' tasks read while no thread waits here.

use std::cell::Cell;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use selvedge_cluster::id_map::IdMap;

use crate::platform::lead_poll::{ARRIVALS_MAX, LeadPoll};

thread_local! {
    /// The lead that this thread has.
    static LED: Cell<*const Lead> = const { Cell::new(ptr::null()) };
}

/// A link as the thread that leads sees it.
pub(super) trait LedLink: Send + Sync {
    /// Reads until no more bytes are left, or until `goes_on` says no: then the link's task has the rest.
    fn read_on(&self, goes_on: &dyn Fn() -> bool);

    /// Ends the wait of the thread that leads for this link.
    fn leave(&self, poll: &LeadPoll);
}

/// The lead of a process.
#[derive(Default)]
pub(crate) struct Lead {
    /// Made with the first link.
    poll: OnceLock<LeadPoll>,
    is_taken: AtomicBool,
    links: Mutex<Links>,
}

#[derive(Default)]
struct Links {
    last: u64,
    by_name: IdMap<u64, Arc<dyn LedLink>>,
}

/// A link's place in the list of the thread that leads. The drop takes it off.
pub(super) struct LeadPlace {
    lead: Arc<Lead>,
    name: u64,
}

/// The right to lead. The drop gives it back.
pub(crate) struct Leading<'a> {
    lead: &'a Lead,
    poll: &'a LeadPoll,
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
        let mut links = self.links.lock();
        links.last += 1;
        let name = links.last;
        links.by_name.insert(name, link);
        let lead = Arc::clone(self);
        (LeadPlace { lead, name }, name)
    }

    /// Takes the lead. `None` if another thread has it, or if there is no link.
    pub(crate) fn take(&self) -> Option<Leading<'_>> {
        let poll = self.poll.get()?;
        // Acquire: the last leader has ended its wait.
        if self.is_taken.swap(true, Ordering::Acquire) {
            return None;
        }
        LED.set(ptr::from_ref(self));
        Some(Leading {
            lead: self,
            poll,
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
        if LED.get() != ptr::from_ref(self)
            && let Some(poll) = self.poll.get()
        {
            poll.ring();
        }
    }
}

impl Leading<'_> {
    /// Waits until bytes arrive, somebody [nudges](Lead::nudge), or the moment has come. `None` if the moment has passed
    /// already, or if the system refuses the wait.
    pub(crate) fn wait(&self, until: Option<Instant>) -> Option<Arrivals> {
        let Some(until) = until else {
            return self.arrivals(None);
        };
        let left = until.checked_duration_since(Instant::now())?;
        self.arrivals(Some(left))
    }

    fn arrivals(&self, timeout: Option<Duration>) -> Option<Arrivals> {
        let (mut names, mut count) = ([0; ARRIVALS_MAX], 0);
        let waited = self.poll.wait(timeout, |name| {
            if let Some(place) = names.get_mut(count) {
                *place = name;
                count += 1;
            }
        });
        self.is_broken.set(waited.is_err());
        Some(Arrivals {
            names,
            count,
            is_full: waited.ok()?,
        })
    }

    /// The number of waits beside the first one in which what had arrived by then is reported. Nobody else was told of that;
    /// what arrives later is told to others too. A nudge may take one place of each wait.
    fn rounds_max(&self) -> usize {
        self.lead.links.lock().by_name.len() / (ARRIVALS_MAX - 1)
    }

    /// Reads the links, as far as `goes_on` says; the links' tasks have the rest.
    pub(crate) fn read(&self, mut arrivals: Arrivals, goes_on: impl Fn() -> bool) {
        let mut rounds = 0;
        loop {
            let is_alone = arrivals.count == 1;
            for name in arrivals.names.iter().take(arrivals.count) {
                let link = self.lead.links.lock().by_name.get(name).cloned();
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
        LED.set(ptr::null());
        // Release: this thread has ended its wait.
        self.lead.is_taken.store(self.is_broken.get(), Ordering::Release);
    }
}

impl Drop for LeadPlace {
    fn drop(&mut self) {
        let removed = self.lead.links.lock().by_name.remove(&self.name);
        if let (Some(link), Some(poll)) = (removed, self.lead.poll.get()) {
            link.leave(poll);
        }
    }
}
