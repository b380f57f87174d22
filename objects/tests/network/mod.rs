//! Tables whose bundles a test delivers, loses or repeats one by one.
#![allow(dead_code, clippy::unwrap_used, clippy::indexing_slicing)]

use std::time::Duration;

use selvedge_cluster::peer::{Peer, ProcessId};
use selvedge_objects::refs::{Action, Bundle, Event, Parcel, RefId, RefSettings, Refs};

pub(crate) fn peer(number: usize) -> Peer {
    ProcessId::new(number as u32).unwrap().first_life()
}

/// Processes 1 to N. Every action is kept; bundles are in `sent` until they are delivered or lost.
pub(crate) struct Network {
    tables: Vec<Refs>,
    pub(crate) now: Duration,
    pub(crate) sent: Vec<(usize, usize, Bundle)>,
    pub(crate) done: Vec<(usize, Action)>,
    calls: u64,
}

impl Network {
    pub(crate) fn new(processes: usize) -> Self {
        let table = |number| Refs::new(peer(number), RefSettings::default());
        Network {
            tables: (1..=processes).map(table).collect(),
            now: Duration::ZERO,
            sent: Vec::new(),
            done: Vec::new(),
            calls: 0,
        }
    }

    pub(crate) fn at(&mut self, number: usize) -> &mut Refs {
        &mut self.tables[number - 1]
    }

    pub(crate) fn step(&mut self, at: usize, event: Event) {
        let now = self.now;
        let actions = self.at(at).step(now, event);
        self.note(at, actions);
    }

    fn note(&mut self, at: usize, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send { to, bundle } => self.sent.push((at, to.process.number() as usize, bundle)),
                action => self.done.push((at, action)),
            }
        }
    }

    pub(crate) fn fill(&mut self, id: RefId) {
        let at = id.owner.process.number() as usize;
        let actions = self.at(at).fill(id).unwrap();
        self.note(at, actions);
    }

    /// A call has arrived with its parcels. Returns its number.
    pub(crate) fn call(&mut self, from: usize, to: usize, parcels: &[Parcel]) -> u64 {
        self.calls += 1;
        let (from, call, parcels) = (peer(from), self.calls, parcels.to_vec());
        self.step(to, Event::Arrived { from, call, parcels });
        call
    }

    /// Has process `owner` keep a result for `creator`; the call has arrived.
    pub(crate) fn keep(&mut self, creator: usize, owner: usize) -> RefId {
        let now = self.now;
        let parcel = self.at(creator).keep(now, peer(owner)).unwrap();
        self.call(creator, owner, &[parcel]);
        parcel.id()
    }

    /// Passes a reference; the call has arrived. Returns its number.
    pub(crate) fn pass(&mut self, id: RefId, from: usize, to: usize) -> u64 {
        let parcel = self.at(from).pass(id, peer(to)).unwrap();
        self.call(from, to, &[parcel])
    }

    pub(crate) fn drop(&mut self, at: usize, id: RefId) {
        self.step(at, Event::Dropped(id));
    }

    pub(crate) fn flush(&mut self, at: usize, to: usize) {
        self.step(at, Event::Flush(peer(to)));
    }

    /// Sends what waits, from one process to another one, and delivers that alone.
    pub(crate) fn deliver(&mut self, from: usize, to: usize) {
        self.flush(from, to);
        let is_it = |it: &(usize, usize, Bundle)| (it.0, it.1) == (from, to);
        let (mine, others) = std::mem::take(&mut self.sent).into_iter().partition(is_it);
        self.sent = others;
        self.arrive(mine);
    }

    pub(crate) fn arrive(&mut self, bundles: Vec<(usize, usize, Bundle)>) {
        for (from, to, bundle) in bundles {
            let from = peer(from);
            self.step(to, Event::Heard { from, bundle });
        }
    }

    /// Lets time pass to the next moment at which something is due.
    pub(crate) fn wait(&mut self) {
        let due = self.tables.iter().filter_map(Refs::deadline).min();
        self.now = due.unwrap_or(self.now).max(self.now);
        (1..=self.tables.len()).for_each(|at| self.step(at, Event::Tick));
    }

    /// Delivers what is on its way, and what is sent for that, without letting time pass.
    pub(crate) fn deliver_all(&mut self) {
        while !self.sent.is_empty() {
            let bundles = std::mem::take(&mut self.sent);
            self.arrive(bundles);
        }
    }

    /// Delivers everything until nothing is on its way and no message waits.
    pub(crate) fn settle(&mut self) {
        loop {
            self.deliver_all();
            let open = |it: &Refs| it.stats().waiting + it.stats().questions;
            if self.tables.iter().all(|it| open(it) == 0) {
                return;
            }
            self.wait();
        }
    }

    pub(crate) fn did(&self, at: usize, action: &Action) -> usize {
        let same = |it: &&(usize, Action)| it.0 == at && it.1 == *action;
        self.done.iter().filter(same).count()
    }
}
