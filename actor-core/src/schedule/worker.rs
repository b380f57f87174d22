//! A worker as the scheduler sees it.

use std::collections::VecDeque;

use selvedge_cluster::id_map::IdMap;

use super::AHEAD_MAX;
use super::resources::Resources;

/// A call that runs.
#[derive(Clone, Debug)]
struct RunningCall {
    needs: Resources,
    /// Whether the call waits, and has given its cpus back.
    is_blocked: bool,
}

/// A worker, the calls that run there, and those that were pushed ahead.
#[derive(Clone, Debug)]
pub(super) struct WorkerLoad {
    offers: Resources,
    running: IdMap<u64, RunningCall>,
    ahead: VecDeque<u64>,
    /// The resources that the calls which run and do not wait use.
    used: Resources,
    /// Whether the worker gets nothing more.
    is_closed: bool,
    /// Whether the worker has as many threads as it offers cpus. Otherwise nothing is pushed ahead to it.
    is_as_its_threads: bool,
    /// Whether the cpus are cores of the host that others have as well.
    shares_cores: bool,
    /// The number of calls that the scheduler had started before the last one of this worker.
    pub(super) last_turn: u64,
}

impl WorkerLoad {
    pub(super) fn new(offers: Resources) -> Self {
        WorkerLoad {
            offers,
            running: IdMap::new(),
            ahead: VecDeque::new(),
            used: Resources::default(),
            is_closed: false,
            is_as_its_threads: true,
            shares_cores: false,
            last_turn: 0,
        }
    }

    pub(super) fn offers(&self) -> &Resources {
        &self.offers
    }

    /// Offers something else from now on; what runs goes on, and what was pushed ahead runs as far as it fits now: the worker has a
    /// thread for each cpu that it offers.
    pub(super) fn offer(&mut self, offers: Resources) {
        self.offers = offers;
        self.is_closed = false;
        self.promote();
    }

    /// The offer has nothing to do with the worker's threads.
    pub(super) fn set_apart_from_threads(&mut self) {
        self.is_as_its_threads = false;
    }

    /// The cpus are cores of the host that others have as well, or are its own.
    pub(super) fn set_sharing(&mut self, shares_cores: bool) {
        self.shares_cores = shares_cores;
    }

    pub(super) fn shares_cores(&self) -> bool {
        self.shares_cores
    }

    /// The cpus that the calls which run and do not wait use.
    pub(super) fn used_cpus(&self) -> u32 {
        self.used.cpu_count()
    }

    /// Gets nothing more; what runs goes on.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// The resources that are used.
    #[cfg(test)]
    pub(super) fn used(&self) -> &Resources {
        &self.used
    }

    /// Whether a call fits now.
    pub(super) fn fits(&self, needs: &Resources) -> bool {
        let mut sum = self.used.clone();
        sum.add(needs);
        !self.is_closed && self.ahead.is_empty() && self.offers.covers(&sum)
    }

    /// Whether a call may be pushed ahead (`SCHEDULE-5`).
    pub(super) fn has_room_ahead(&self, needs: &Resources) -> bool {
        let is_plain = needs.is_one_cpu() && self.running.values().all(|running| running.needs.is_one_cpu());
        let is_known = self.is_as_its_threads && !self.is_closed;
        is_plain && is_known && self.ahead.len() < AHEAD_MAX && self.offers.cpu_count() > 0
    }

    pub(super) fn ahead(&self) -> usize {
        self.ahead.len()
    }

    pub(super) fn run(&mut self, call: u64, needs: Resources) {
        self.used.add(&needs);
        let is_blocked = false;
        self.running.insert(call, RunningCall { needs, is_blocked });
    }

    pub(super) fn push_ahead(&mut self, call: u64) {
        self.ahead.push_back(call);
    }

    /// Whether a call waits and keeps some of what is needed.
    pub(super) fn keeps_while_blocked(&self, needs: &Resources) -> bool {
        let holds = |running: &RunningCall| running.is_blocked && running.needs.keeps_from(needs);
        self.running.values().any(holds)
    }

    /// A call waits (true), or goes on.
    pub(super) fn set_blocked(&mut self, call: u64, is_blocked: bool) {
        // The worker begins what was pushed ahead as soon as a thread is free, and may say that this call waits before it has said
        // why the thread was free.
        if let Some(place) = self.ahead.iter().position(|ahead| *ahead == call) {
            self.ahead.remove(place);
            self.run(call, Resources::cpus(1));
        }
        let Some(running) = self.running.get_mut(&call) else {
            return;
        };
        if running.is_blocked == is_blocked {
            return;
        }
        running.is_blocked = is_blocked;
        let cpus = Resources::cpus(running.needs.cpu_count());
        match is_blocked {
            true => self.used.remove(&cpus),
            false => self.used.add(&cpus),
        }
        self.promote();
    }

    /// A call has ended, or will not run here; false if it is not here.
    pub(super) fn end(&mut self, call: u64) -> bool {
        let known = self.ahead.len();
        self.ahead.retain(|ahead| *ahead != call);
        if self.ahead.len() < known {
            return true;
        }
        let Some(RunningCall { needs, is_blocked }) = self.running.remove(&call) else {
            return false;
        };
        let given_back = match is_blocked {
            true => needs.with_cpus(0),
            false => needs,
        };
        self.used.remove(&given_back);
        self.promote();
        true
    }

    /// Calls that were pushed ahead run as soon as they fit: the worker has begun them already.
    fn promote(&mut self) {
        let one = Resources::cpus(1);
        while self.used.cpu_count() < self.offers.cpu_count() {
            let Some(call) = self.ahead.pop_front() else {
                return;
            };
            self.run(call, one.clone());
        }
    }

    /// All calls of the worker.
    pub(super) fn calls(&self) -> impl Iterator<Item = u64> {
        self.running.keys().copied().chain(self.ahead.iter().copied())
    }
}
