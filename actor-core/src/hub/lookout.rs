//! The lookout: before the thread that leads sleeps, it looks for bytes for a while, so that nobody has to wake it. Only the bytes of
//! byte rings can be seen in this way.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge_channels::Waiting;
use selvedge_cluster::id_map::IdMap;

use super::lead::LedLink;

/// The number of looks before a thread leaves its core to others: about a microsecond.
const LOOKS: u32 = 64;

/// Links with their names.
type Watchable = Arc<[(u64, Arc<dyn LedLink>)]>;

/// The links of a process, by name.
#[derive(Default)]
pub(super) struct LedLinks {
    last: u64,
    by_name: IdMap<u64, Arc<dyn LedLink>>,
    /// The links at which a thread can look for bytes.
    watchable: Watchable,
    /// The processes that may wait for each other.
    processes: usize,
    /// The time for which a thread looks, if it is set.
    spin: Option<Duration>,
    /// The way to look, which follows from the two.
    waiting: Option<Waiting>,
}

impl LedLinks {
    pub(super) fn list(&mut self, link: Arc<dyn LedLink>) -> u64 {
        self.last += 1;
        self.by_name.insert(self.last, link);
        self.changed();
        self.last
    }

    pub(super) fn remove(&mut self, name: u64) -> Option<Arc<dyn LedLink>> {
        let removed = self.by_name.remove(&name);
        self.changed();
        removed
    }

    pub(super) fn find(&self, name: u64) -> Option<Arc<dyn LedLink>> {
        self.by_name.get(&name).cloned()
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    fn changed(&mut self) {
        let watchable = self.by_name.iter().filter(|(_, link)| link.is_watchable());
        self.watchable = watchable.map(|(name, link)| (*name, Arc::clone(link))).collect();
    }

    pub(super) fn set_processes(&mut self, processes: usize) {
        self.processes = processes;
        self.choose();
    }

    pub(super) fn set_spin(&mut self, spin: Option<Duration>) {
        self.spin = spin;
        self.choose();
    }

    fn choose(&mut self) {
        self.waiting = match self.spin {
            None => Some(Waiting::auto(self.processes)),
            Some(Duration::ZERO) => None,
            Some(limit) => Some(Waiting::SpinThenPark(limit)),
        };
    }

    /// The links at which a thread looks, and the way in which it does; `None` if it sleeps at once.
    pub(super) fn lookout(&self) -> Option<(Watchable, Waiting)> {
        let waiting = self.waiting.filter(|_| !self.watchable.is_empty())?;
        Some((Arc::clone(&self.watchable), waiting))
    }
}

/// Looks whether a wait is over, as long as `waiting` says.
///
/// The scheduler may have put the thread that is waited for on the core of this one, which is left for it again and again.
fn looks(waiting: Waiting, until: Option<Instant>, mut is_over: impl FnMut() -> bool) -> bool {
    let Waiting::SpinThenPark(limit) = waiting else {
        return waiting.spin(until, is_over);
    };
    let end = Instant::now().checked_add(limit);
    let end = end.into_iter().chain(until).min();
    loop {
        for _ in 0..LOOKS {
            if is_over() {
                return true;
            }
            std::hint::spin_loop();
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            return false;
        }
        std::thread::yield_now();
    }
}

/// The links at which the thread that leads looks for bytes at present.
#[derive(Default)]
pub(super) struct Lookout(RefCell<Option<Watchable>>);

impl Lookout {
    /// Looks for bytes, as long as `waiting` says, or until `is_over`. Passes the names of the links that have some to `found`.
    /// Returns whether the wait is over. If it is not, nobody looks any more.
    pub(super) fn look_out(
        &self,
        (links, waiting): (Watchable, Waiting),
        until: Option<Instant>,
        is_over: impl Fn() -> bool,
        mut found: impl FnMut(u64),
    ) -> bool {
        self.watch(&links);
        let has_bytes = |(_, link): &&(u64, Arc<dyn LedLink>)| link.has_bytes();
        let is_over = || is_over() || links.iter().any(|link| has_bytes(&link));
        if looks(waiting, until, is_over) {
            links.iter().filter(has_bytes).for_each(|(name, _)| found(*name));
            return true;
        }
        let mut is_found = false;
        self.end(|name, _| {
            is_found = true;
            found(name);
        });
        is_found
    }

    fn watch(&self, links: &Watchable) {
        let before = self.0.borrow_mut().replace(Arc::clone(links));
        if !before.is_some_and(|before| Arc::ptr_eq(&before, links)) {
            links.iter().for_each(|(_, link)| link.watch());
        }
    }

    /// Looks no more. Passes on the links that have bytes, of which nobody is told.
    pub(super) fn end(&self, mut with_bytes: impl FnMut(u64, &dyn LedLink)) {
        let watched = self.0.borrow_mut().take();
        for (name, link) in watched.iter().flat_map(|links| links.iter()) {
            if link.unwatch() {
                with_bytes(*name, &**link);
            }
        }
    }
}
