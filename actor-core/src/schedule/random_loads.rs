//! The scheduler under random load, compared with an interpreter that looks at every call.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use selvedge_cluster::peer::Peer;

use super::scheduler::CallStart;
use super::{AHEAD_MAX, PASSES_MAX, Resources, Scheduler};
use crate::testing::peer;

/// The cores of the host.
const CORES: u32 = 2;

fn worker(number: u32) -> Peer {
    peer(number + 2)
}

/// What the interpreter knows of a call.
#[derive(Clone, Debug)]
struct SeenCall {
    needs: Resources,
    missing: usize,
    at: Option<Peer>,
    is_blocked: bool,
    passed: u64,
}

/// What the interpreter knows of a worker.
#[derive(Clone, Debug)]
struct SeenWorker {
    offers: Resources,
    is_open: bool,
    is_apart: bool,
    shares: bool,
    ahead: usize,
}

#[derive(Default)]
struct Interpreter {
    calls: BTreeMap<u64, SeenCall>,
    workers: BTreeMap<Peer, SeenWorker>,
}

impl Interpreter {
    /// The calls of a worker, in the order of their start.
    fn at(&self, worker: Peer) -> impl Iterator<Item = &SeenCall> {
        self.calls.values().filter(move |call| call.at == Some(worker))
    }

    /// Some calls, in their order.
    fn which(&self, is_it: impl Fn(&SeenCall) -> bool) -> Vec<u64> {
        let calls = self.calls.iter().filter(|(_, call)| is_it(call));
        calls.map(|(call, _)| *call).collect()
    }

    /// Whether some worker offers enough, or there is none.
    fn fits(&self, needs: &Resources) -> bool {
        let mut open = self.workers.values().filter(|worker| worker.is_open).peekable();
        open.peek().is_none() || open.any(|worker| worker.offers.covers(needs))
    }

    /// The resources of a worker's calls are in use there, but for those that are pushed ahead, and for the cpus of those that wait.
    fn check(&mut self, scheduler: &Scheduler) {
        let peers: Vec<Peer> = self.workers.keys().copied().collect();
        for peer in peers {
            let mut sum = Resources::default();
            for call in self.at(peer) {
                sum.add(&match call.is_blocked {
                    true => call.needs.clone().with_cpus(0),
                    false => call.needs.clone(),
                });
            }
            let (mut used, ahead) = scheduler.load(peer).unwrap();
            used.add(&Resources::cpus(ahead as u32));
            assert!(used.covers(&sum) && sum.covers(&used), "{used} for {sum}");
            self.workers.get_mut(&peer).unwrap().ahead = ahead;
        }
    }

    /// A start agrees with the order of submission, and its worker has room for it.
    fn started(&mut self, CallStart { call, worker }: CallStart, scheduler: &Scheduler) {
        let started = self.calls[&call].clone();
        assert!(started.missing == 0 && started.at.is_none(), "{started:?}");
        let blocked: Vec<Resources> = self
            .calls
            .values()
            .filter(|call| call.at.is_some() && call.is_blocked)
            .map(|call| call.needs.clone())
            .collect();
        for (older, seen) in self.calls.range_mut(..call) {
            if seen.missing == 0 && seen.at.is_none() {
                assert_ne!(seen.needs, started.needs, "{older} before {call}");
                seen.passed += 1;
                let is_kept = blocked.iter().any(|blocked| blocked.keeps_from(&seen.needs));
                assert!(seen.passed <= PASSES_MAX || is_kept, "{older} was passed over");
            }
        }
        self.calls.get_mut(&call).unwrap().at = Some(worker);
        let before = self.workers[&worker].clone();
        assert!(before.is_open);
        self.check(scheduler);
        if self.workers[&worker].ahead == before.ahead {
            return self.has_room(worker, &started.needs, scheduler);
        }
        assert!(before.ahead < AHEAD_MAX && !before.is_apart);
        // Whoever has something pushed ahead runs nothing else.
        assert!(self.at(worker).all(|call| call.needs.is_one_cpu()));
        let sharing = self.workers.values().filter(|worker| worker.shares).count();
        assert!(
            !before.shares || sharing == 1,
            "a core may be free at another one"
        );
    }

    /// What runs at a worker, with what a call needs that has just started, is not more than it offers, nor than the host has.
    fn has_room(&self, worker: Peer, needs: &Resources, scheduler: &Scheduler) {
        let seen = &self.workers[&worker];
        let (used, _) = scheduler.load(worker).unwrap();
        assert!(seen.offers.covers(&used), "{} for {used}", seen.offers);
        // Those that went on after a wait may use more than there is, which concerns no call without cpus.
        if seen.shares && needs.cpu_count() > 0 {
            let sharing = self.workers.iter().filter(|(_, worker)| worker.shares);
            let used = sharing.map(|(peer, _)| scheduler.load(*peer).unwrap().0.cpu_count());
            assert!(used.sum::<u32>() <= CORES);
        }
    }

    fn forget(&mut self, hopeless: Vec<u64>) {
        for call in hopeless {
            let call = self.calls.remove(&call).unwrap();
            assert!(call.at.is_none() && !self.fits(&call.needs));
        }
    }
}

fn needs() -> impl Strategy<Value = Resources> {
    prop_oneof![
        6 => Just(Resources::cpus(1)),
        1 => (0u32..4).prop_map(Resources::cpus),
        1 => (0u32..3, 0u32..2).prop_map(|(cpus, gpus)| Resources::cpus(cpus).gpus(gpus)),
        1 => (0u32..3).prop_map(|number| Resources::cpus(1).and("licence", number)),
    ]
}

#[derive(Clone, Debug)]
enum Event {
    Submit(Resources, usize),
    Input(prop::sample::Index),
    InputLost(prop::sample::Index),
    End(prop::sample::Index),
    /// A call that was started waits, or goes on.
    Turn(prop::sample::Index),
    Die(u32),
    Close(u32),
    /// A worker comes, or offers something else.
    Offer(u32, Resources),
    Apart(u32),
    Share(u32, bool),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let index = any::<prop::sample::Index>;
    let event = prop_oneof![
        16 => (needs(), 0usize..3).prop_map(|(needs, missing)| Event::Submit(needs, missing)),
        16 => index().prop_map(Event::Input),
        3 => index().prop_map(Event::InputLost),
        16 => index().prop_map(Event::End),
        16 => index().prop_map(Event::Turn),
        1 => (0u32..3).prop_map(Event::Die),
        1 => (0u32..3).prop_map(Event::Close),
        3 => (0u32..3, needs()).prop_map(|(number, offers)| Event::Offer(number, offers)),
        1 => (0u32..3).prop_map(Event::Apart),
        2 => (0u32..3, any::<bool>()).prop_map(|(number, shares)| Event::Share(number, shares)),
    ];
    prop::collection::vec(event, 1..200)
}

fn picked(index: prop::sample::Index, of: Vec<u64>) -> Option<u64> {
    (!of.is_empty()).then(|| of[index.index(of.len())])
}

/// The scheduler and what was seen of it.
struct Load {
    scheduler: Scheduler,
    seen: Interpreter,
    next: u64,
}

impl Load {
    fn new() -> Self {
        let mut load = Load {
            scheduler: Scheduler::on_host(CORES),
            seen: Interpreter::default(),
            next: 0,
        };
        load.offer(0, Resources::cpus(2).gpus(1).and("licence", 1));
        load.offer(1, Resources::cpus(1));
        load
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Submit(needs, missing) => self.submit(needs, missing),
            Event::Input(index) => {
                if let Some(call) = picked(index, self.seen.which(|call| call.missing > 0)) {
                    self.input_made(call);
                }
            }
            Event::InputLost(index) => {
                if let Some(call) = picked(index, self.seen.which(|_| true)) {
                    self.scheduler.input_lost(call);
                    let seen = self.seen.calls.get_mut(&call).unwrap();
                    if seen.at.is_none() {
                        (seen.missing, seen.passed) = (seen.missing + 1, 0);
                    }
                }
            }
            Event::End(index) => {
                if let Some(call) = picked(index, self.seen.which(|_| true)) {
                    let ended = self.seen.calls.remove(&call).unwrap();
                    assert_eq!(self.scheduler.end(call), ended.at);
                }
            }
            Event::Turn(index) => {
                if let Some(call) = picked(index, self.seen.which(|call| call.at.is_some())) {
                    let seen = self.seen.calls.get_mut(&call).unwrap();
                    seen.is_blocked = !seen.is_blocked;
                    self.scheduler.set_blocked(call, seen.is_blocked);
                }
            }
            Event::Die(number) => self.die(worker(number)),
            Event::Close(number) => {
                if let Some(seen) = self.seen.workers.get_mut(&worker(number)) {
                    seen.is_open = false;
                }
                let hopeless = self.scheduler.close_worker(worker(number));
                self.seen.forget(hopeless);
            }
            Event::Offer(number, offers) => self.offer(number, offers),
            Event::Apart(number) => {
                self.scheduler.set_apart_from_threads(worker(number));
                if let Some(seen) = self.seen.workers.get_mut(&worker(number)) {
                    seen.is_apart = true;
                }
            }
            Event::Share(number, shares) => self.share(worker(number), shares),
        }
        self.start();
    }

    fn submit(&mut self, needs: Resources, missing: usize) {
        self.next += 1;
        let is_taken = self.scheduler.submit(self.next, needs.clone(), missing).is_ok();
        assert_eq!(is_taken, self.seen.fits(&needs));
        if is_taken {
            let (at, is_blocked, passed) = (None, false, 0);
            let call = SeenCall {
                needs,
                missing,
                at,
                is_blocked,
                passed,
            };
            self.seen.calls.insert(self.next, call);
        }
    }

    fn input_made(&mut self, call: u64) {
        self.scheduler.input_made(call);
        self.seen.calls.get_mut(&call).unwrap().missing -= 1;
    }

    fn die(&mut self, worker: Peer) {
        let had = self.seen.which(|call| call.at == Some(worker));
        let had: BTreeSet<u64> = had.into_iter().collect();
        let (lost, hopeless) = self.scheduler.remove_worker(worker);
        assert_eq!(lost.into_iter().collect::<BTreeSet<_>>(), had);
        self.seen.calls.retain(|call, _| !had.contains(call));
        self.seen.workers.remove(&worker);
        self.seen.forget(hopeless);
    }

    fn offer(&mut self, number: u32, offers: Resources) {
        let hopeless = self.scheduler.add_worker(worker(number), offers.clone());
        let seen = self.seen.workers.entry(worker(number)).or_insert(SeenWorker {
            offers: Resources::default(),
            is_open: true,
            is_apart: false,
            shares: false,
            ahead: 0,
        });
        (seen.offers, seen.is_open) = (offers, true);
        self.seen.forget(hopeless);
    }

    fn share(&mut self, worker: Peer, shares: bool) {
        self.scheduler.set_sharing(worker, shares);
        if let Some(seen) = self.seen.workers.get_mut(&worker) {
            seen.shares = shares;
        }
    }

    fn start(&mut self) {
        self.seen.check(&self.scheduler);
        while let Some(start) = self.scheduler.next_start() {
            self.seen.started(start, &self.scheduler);
        }
    }

    /// Whatever waits can run: with all inputs, and as calls end, everything ends. No call needs more than the host has cores.
    fn end(&mut self) {
        (0..3).for_each(|number| self.share(worker(number), false));
        for call in self.seen.which(|_| true) {
            while self.seen.calls[&call].missing > 0 {
                self.input_made(call);
            }
        }
        self.start();
        while let Some(call) = self.seen.which(|call| call.at.is_some()).first().copied() {
            self.scheduler.end(call);
            self.seen.calls.remove(&call);
            self.start();
        }
        let is_left = |worker: &SeenWorker| worker.is_open;
        assert!(self.seen.calls.is_empty() || !self.seen.workers.values().any(is_left));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn rtask_07_rtask_08_random_loads_are_never_overcommitted_and_in_order(events in events()) {
        let mut load = Load::new();
        events.into_iter().for_each(|event| load.happen(event));
        load.end();
    }
}
