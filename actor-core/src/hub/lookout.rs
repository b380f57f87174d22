//! The lookout: before the thread that leads sleeps, it looks for bytes for a while, so that nobody has to wake it. Bytes of byte
//! rings are seen in memory. To look at a socket is a system call, so a thread looks at sockets only if it was told for how long.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge_cluster::id_map::IdMap;

use super::lead::{LedLink, LinkLook};
use crate::cores::core_count;
use crate::looking::Looking;

/// The time for which a thread looks if each process can have a core: longer than two wake-ups from one core to another.
const LOOKING: Duration = Duration::from_micros(100);
/// The number of times that a thread leaves its core, and looks in between, if there are more processes than cores.
const LEAVES: u32 = 8;
/// The number of links at which a thread looks; with more of them, the look costs more than the sleep.
const WATCHED_MAX: usize = 64;

/// The number of looks into memory for which one system call counts.
const SYSTEM_CALL: usize = 16;

/// Links with their names.
type Watchable = Arc<[(u64, Arc<dyn LedLink>)]>;

/// The links of a process, by name.
#[derive(Default)]
pub(super) struct LedLinks {
    last: u64,
    by_name: IdMap<u64, Arc<dyn LedLink>>,
    /// The links whose bytes are seen in memory.
    watchable: Watchable,
    /// All links.
    all: Watchable,
    /// The processes of this host that may wait for each other.
    processes: usize,
    /// The time for which a thread looks, if it is set.
    spin: Option<Duration>,
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
        let all = self.by_name.iter();
        self.all = all.map(|(name, link)| (*name, Arc::clone(link))).collect();
    }

    pub(super) fn set_processes(&mut self, processes: usize) {
        self.processes = processes;
    }

    pub(super) fn set_spin(&mut self, spin: Option<Duration>) {
        self.spin = spin;
    }

    /// The links at which a thread looks, and the way in which it does; `None` if it sleeps at once. `wanted` is the way for a thread
    /// that looks at all links.
    pub(super) fn lookout(&self, wanted: Option<Looking>) -> Option<(Watchable, Looking)> {
        if let Some(looking) = wanted
            && (1..=WATCHED_MAX).contains(&self.all.len())
        {
            return Some((Arc::clone(&self.all), looking));
        }
        let (limit, leaves) = match self.spin {
            Some(limit) => (limit, u32::MAX),
            None if self.processes <= core_count() => (LOOKING, u32::MAX),
            None => (LOOKING, LEAVES),
        };
        if limit.is_zero() || self.watchable.is_empty() || self.watchable.len() > WATCHED_MAX {
            return None;
        }
        Some((Arc::clone(&self.watchable), Looking { limit, leaves }))
    }
}

/// The links at which the thread that leads looks for bytes at present.
#[derive(Default)]
pub(super) struct Lookout(RefCell<Option<Watchable>>);

impl Lookout {
    /// Looks for bytes, as long as `looking` says, or until `is_over`. Passes the names of the links at which some wait to `found`. Returns
    /// whether there is one, whether bytes were read, or whether it is over. If neither is so, the lookout has ended.
    pub(super) fn look_out(
        &self,
        (links, looking): (Watchable, Looking),
        until: Option<Instant>,
        is_over: impl Fn() -> bool,
        mut found: impl FnMut(u64),
    ) -> bool {
        self.watch(&links);
        // Each link is looked at, so that one with many bytes keeps no other one waiting.
        let mut see = || {
            links.iter().fold(false, |seen, (name, link)| {
                let saw = link.look();
                if saw == LinkLook::Bytes {
                    found(*name);
                }
                seen | (saw != LinkLook::Nothing)
            })
        };
        let cost = links
            .iter()
            .map(|(_, link)| if link.is_watchable() { 1 } else { SYSTEM_CALL });
        if looking.until(until, cost.sum(), || is_over() || see()) {
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
        match before {
            Some(before) if Arc::ptr_eq(&before, links) => return,
            Some(before) => leave(&before, |_, link| link.leave_rest()),
            None => {}
        }
        links.iter().for_each(|(_, link)| link.watch());
    }

    /// Looks no more. Passes on the links that have bytes, of which nobody is told.
    pub(super) fn end(&self, mut with_bytes: impl FnMut(u64, &dyn LedLink)) {
        let watched = self.0.borrow_mut().take();
        watched.iter().for_each(|links| leave(links, &mut with_bytes));
    }
}

/// Looks at links no more. Passes on those that have bytes, of which nobody is told.
fn leave(links: &Watchable, mut with_bytes: impl FnMut(u64, &dyn LedLink)) {
    for (name, link) in links.iter() {
        if link.unwatch() {
            with_bytes(*name, &**link);
        }
    }
}
