//! The steps of the scheduler.

use selvedge_cluster::id_map::IdMap;
use selvedge_cluster::peer::Peer;

use super::PASSES_MAX;
use super::ready::ReadyCalls;
use super::resources::Resources;
use super::worker::WorkerLoad;

/// A call starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallStart {
    pub(crate) call: u64,
    pub(crate) worker: Peer,
}

/// No worker offers what a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Infeasible;

#[derive(Clone, Debug)]
struct ScheduledCall {
    needs: Resources,
    place: CallPlace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallPlace {
    /// A number of inputs is missing.
    Waits(usize),
    Ready,
    At(Peer),
}

/// The calls that were submitted and have not ended, and the workers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scheduler {
    workers: IdMap<Peer, WorkerLoad>,
    calls: IdMap<u64, ScheduledCall>,
    ready: ReadyCalls,
    /// The cores of the host, which the workers that share them have together.
    host_cpus: u32,
    /// The number of calls that were started.
    turns: u64,
}

/// The cores that workers of a host share.
#[derive(Clone, Copy)]
struct SharedCores {
    free: u32,
    /// Whether several workers have them.
    are_of_several: bool,
}

impl Scheduler {
    /// A scheduler on a host with this number of cores.
    pub(crate) fn on_host(host_cpus: u32) -> Self {
        Scheduler {
            host_cpus,
            ..Scheduler::default()
        }
    }

    /// Says whether the cpus of a worker are cores of the host, which are counted once for all workers that share them, or its own.
    pub(crate) fn set_sharing(&mut self, worker: Peer, shares_cores: bool) {
        if let Some(load) = self.workers.get_mut(&worker) {
            load.set_sharing(shares_cores);
        }
    }

    fn shared_cores(&self) -> SharedCores {
        let (mut used, mut sharing) = (0_u32, 0);
        for load in self.workers.values().filter(|load| load.shares_cores()) {
            used = used.saturating_add(load.used_cpus());
            sharing += 1;
        }
        SharedCores {
            free: self.host_cpus.saturating_sub(used),
            are_of_several: sharing > 1,
        }
    }

    /// A worker has come, or offers something else from now on. Returns the calls that nobody can run any more.
    pub(crate) fn add_worker(&mut self, worker: Peer, offers: Resources) -> Vec<u64> {
        match self.workers.get_mut(&worker) {
            Some(load) => load.offer(offers),
            None => {
                self.workers.insert(worker, WorkerLoad::new(offers));
            }
        }
        self.hopeless()
    }

    /// The offer of a worker is what its user says, and not the number of its threads: nothing is pushed ahead to it, which they would
    /// start at once.
    pub(crate) fn set_apart_from_threads(&mut self, worker: Peer) {
        if let Some(load) = self.workers.get_mut(&worker) {
            load.set_apart_from_threads();
        }
    }

    /// A worker has gone. Returns the calls that it had, which are forgotten, and those that nobody can run any more.
    pub(crate) fn remove_worker(&mut self, worker: Peer) -> (Vec<u64>, Vec<u64>) {
        let Some(load) = self.workers.remove(&worker) else {
            return (Vec::new(), Vec::new());
        };
        let lost: Vec<u64> = load.calls().collect();
        for call in &lost {
            self.calls.remove(call);
        }
        (lost, self.hopeless())
    }

    /// A worker gets nothing more; what runs there goes on. Returns the calls that nobody can run any more.
    pub(crate) fn close_worker(&mut self, worker: Peer) -> Vec<u64> {
        if let Some(load) = self.workers.get_mut(&worker) {
            load.close();
        }
        self.hopeless()
    }

    /// Whether the worker is here, and gets calls.
    pub(crate) fn is_open(&self, worker: Peer) -> bool {
        self.workers.get(&worker).is_some_and(|load| !load.is_closed())
    }

    /// The workers that get calls, for whoever closes some.
    pub(crate) fn open_workers(&self) -> Vec<Peer> {
        let open = self.workers.iter().filter(|(_, load)| !load.is_closed());
        open.map(|(worker, _)| *worker).collect()
    }

    /// The loads of the workers that get calls.
    fn open(&self) -> impl Iterator<Item = &WorkerLoad> {
        self.workers.values().filter(|load| !load.is_closed())
    }

    /// The offers of the workers, for errors.
    pub(crate) fn offered(&self) -> String {
        let offers: Vec<String> = self.open().map(|load| load.offers().to_string()).collect();
        offers.join("; ")
    }

    /// Submits a call, of whose inputs this number is missing. Numbers of calls are higher the later they are submitted.
    ///
    /// # Errors
    /// [`Infeasible`]: no worker offers enough, whatever ends. Without workers nothing can be told yet.
    pub(crate) fn submit(&mut self, call: u64, needs: Resources, missing: usize) -> Result<(), Infeasible> {
        self.check(&needs)?;
        let place = match missing {
            0 => CallPlace::Ready,
            missing => CallPlace::Waits(missing),
        };
        if place == CallPlace::Ready {
            self.ready.insert(call, &needs);
        }
        self.calls.insert(call, ScheduledCall { needs, place });
        Ok(())
    }

    /// Whether some worker offers what is needed.
    ///
    /// # Errors
    /// [`Infeasible`].
    fn check(&self, needs: &Resources) -> Result<(), Infeasible> {
        let mut offers = self.open().map(WorkerLoad::offers).peekable();
        match offers.peek().is_none() || offers.any(|offers| offers.covers(needs)) {
            true => Ok(()),
            false => Err(Infeasible),
        }
    }

    /// An input of a call is there.
    pub(crate) fn input_made(&mut self, call: u64) {
        let Some(found) = self.calls.get_mut(&call) else {
            return;
        };
        match found.place {
            CallPlace::Waits(1) => {
                found.place = CallPlace::Ready;
                self.ready.insert(call, &found.needs);
            }
            CallPlace::Waits(missing) => found.place = CallPlace::Waits(missing - 1),
            CallPlace::Ready | CallPlace::At(_) => {}
        }
    }

    /// An input of a call was there and is lost.
    pub(crate) fn input_lost(&mut self, call: u64) {
        let Some(found) = self.calls.get_mut(&call) else {
            return;
        };
        match found.place {
            CallPlace::Waits(missing) => found.place = CallPlace::Waits(missing + 1),
            CallPlace::Ready => {
                found.place = CallPlace::Waits(1);
                self.ready.remove(call, &found.needs);
            }
            // Where it runs, it waits for the value.
            CallPlace::At(_) => {}
        }
    }

    /// A call has ended, was cancelled, or will not run; returns the worker that has it.
    pub(crate) fn end(&mut self, call: u64) -> Option<Peer> {
        let ended = self.calls.remove(&call)?;
        match ended.place {
            CallPlace::Waits(_) => None,
            CallPlace::Ready => {
                self.ready.remove(call, &ended.needs);
                None
            }
            CallPlace::At(worker) => {
                self.workers.get_mut(&worker)?.end(call);
                Some(worker)
            }
        }
    }

    /// A call waits (true), and gives its cpus back for the time; or goes on.
    pub(crate) fn set_blocked(&mut self, call: u64, is_blocked: bool) {
        if let Some(CallPlace::At(worker)) = self.calls.get(&call).map(|call| call.place)
            && let Some(load) = self.workers.get_mut(&worker)
        {
            load.set_blocked(call, is_blocked);
        }
    }

    /// Starts what can start.
    #[cfg(test)]
    pub(super) fn starts(&mut self) -> Vec<CallStart> {
        let mut starts = Vec::new();
        while let Some(start) = self.next_start() {
            starts.push(start);
        }
        starts
    }

    /// Starts the oldest call that fits, unless one that does not fit was passed over too often.
    pub(crate) fn next_start(&mut self) -> Option<CallStart> {
        let mut passed = Vec::new();
        for (call, needs, passes) in self.ready.oldest() {
            if let Some((worker, is_ahead)) = self.find(&needs) {
                passed.iter().for_each(|needs| self.ready.pass(needs));
                return self.started(call, needs, worker, is_ahead);
            }
            let is_kept = |load: &WorkerLoad| load.keeps_while_blocked(&needs);
            if passes >= PASSES_MAX && !self.workers.values().any(is_kept) {
                return None;
            }
            passed.push(needs);
        }
        None
    }

    /// The worker for a call: of those that have room, the one that got none for the longest time. The flag says that the call
    /// is pushed ahead.
    fn find(&self, needs: &Resources) -> Option<(Peer, bool)> {
        let cores = self.shared_cores();
        let has_cores = |load: &WorkerLoad| !load.shares_cores() || needs.cpu_count() <= cores.free;
        let fitting = self
            .workers
            .iter()
            .filter(|(_, load)| has_cores(load) && load.fits(needs));
        if let Some((worker, _)) = fitting.min_by_key(|(_, load)| load.last_turn) {
            return Some((*worker, false));
        }
        // A worker whose threads are not all in use would begin at once what is pushed ahead to it.
        let is_alone = |load: &WorkerLoad| !load.shares_cores() || !cores.are_of_several;
        let full = self
            .workers
            .iter()
            .filter(|(_, load)| is_alone(load) && load.has_room_ahead(needs));
        let (worker, _) = full.min_by_key(|(_, load)| (load.ahead(), load.last_turn))?;
        Some((*worker, true))
    }

    fn started(&mut self, call: u64, needs: Resources, worker: Peer, is_ahead: bool) -> Option<CallStart> {
        self.ready.remove(call, &needs);
        self.turns += 1;
        let load = self.workers.get_mut(&worker)?;
        load.last_turn = self.turns;
        match is_ahead {
            true => load.push_ahead(call),
            false => load.run(call, needs),
        }
        if let Some(started) = self.calls.get_mut(&call) {
            started.place = CallPlace::At(worker);
        }
        Some(CallStart { call, worker })
    }

    /// Takes out the ready calls that no worker offers enough for. Those whose inputs are missing are looked at as well.
    fn hopeless(&mut self) -> Vec<u64> {
        let offers: Vec<Resources> = self.open().map(|load| load.offers().clone()).collect();
        if offers.is_empty() {
            return Vec::new();
        }
        let may = |needs: &Resources| offers.iter().any(|offers| offers.covers(needs));
        let mut hopeless = self.ready.extract(may);
        for call in &hopeless {
            self.calls.remove(call);
        }
        let waiting = self
            .calls
            .extract(|_, call| matches!(call.place, CallPlace::Waits(_)) && !may(&call.needs));
        hopeless.extend(waiting.into_iter().map(|(call, _)| call));
        hopeless
    }

    #[cfg(test)]
    pub(super) fn used(&self) -> Vec<(Resources, Resources, usize)> {
        let workers = self.workers.values();
        workers
            .map(|load| (load.offers().clone(), load.used().clone(), load.ahead()))
            .collect()
    }

    /// The resources that the calls of a worker use, and the number of those that are pushed ahead.
    #[cfg(test)]
    pub(super) fn load(&self, worker: Peer) -> Option<(Resources, usize)> {
        let load = self.workers.get(&worker)?;
        Some((load.used().clone(), load.ahead()))
    }

    #[cfg(test)]
    pub(super) fn is_ready(&self, call: u64) -> bool {
        self.ready.contains(call)
    }
}
