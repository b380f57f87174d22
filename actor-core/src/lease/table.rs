//! Who holds what: the rules of lending as plain state. No lock, no clock, no thread.
//!
//! What is lent is a lane, because a lane runs one program at a time; an inline actor has no lane of its own and is
//! lent by itself. Rules:
//! - `LEASE-1`: a unit has at most one lease.
//! - `LEASE-2`: a lease is granted whole or not at all.
//! - `LEASE-3`: a unit whose program runs stays with its lease, even a dropped one, until the program has ended.
//! - `LEASE-4`: a lost lane is never granted again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::death::Death;
use crate::id::{ActorId, LaneId, ProcessId};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LeaseId(u64);

/// What can be lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Unit {
    Lane(LaneId),
    Inline(ActorId),
}

pub(crate) type Watcher = Arc<dyn Fn(&Death) + Send + Sync>;
/// Called when a program has ended, without a word about which.
pub(crate) type EndWatcher = Arc<dyn Fn() + Send + Sync>;

struct Use {
    lease: LeaseId,
    running: bool,
    /// The worker process that a program was sent to.
    process: Option<ProcessId>,
}

struct Record {
    holder: String,
    actors: BTreeSet<ActorId>,
    ending: bool,
    dropped: bool,
    watchers: Vec<Watcher>,
    end_watchers: Vec<EndWatcher>,
    deaths: Vec<Death>,
    /// Texts of programs' panics, by lane.
    panics: Vec<(LaneId, String)>,
}

/// What stands in the way of a lease.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// Held by a lease that goes on.
    Held { unit: Unit, holder: String },
    /// Held by a lease that is ending: worth waiting for.
    Ending { unit: Unit, holder: String },
    /// The lane's thread never came back from an earlier program.
    Lost { unit: Unit },
}

/// Why a program may not be started.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotStarted {
    NotHeld(LaneId),
    Running(LaneId),
}

#[derive(Default)]
pub(crate) struct LeaseTable {
    uses: BTreeMap<Unit, Use>,
    leases: BTreeMap<LeaseId, Record>,
    lost: BTreeSet<LaneId>,
    next: u64,
}

impl LeaseTable {
    /// The first obstacle, the worst kind first: a refusal must not wait behind something that will be free.
    pub(crate) fn obstacle(&self, units: &BTreeSet<Unit>) -> Option<Obstacle> {
        let mut ending = None;
        for &unit in units {
            if matches!(unit, Unit::Lane(lane) if self.lost.contains(&lane)) {
                return Some(Obstacle::Lost { unit });
            }
            let Some(taken) = self.uses.get(&unit) else {
                continue;
            };
            let record = self.leases.get(&taken.lease);
            let holder = record.map_or_else(String::new, |record| record.holder.clone());
            if record.is_some_and(|record| record.ending) {
                if !taken.running {
                    // Nothing of the old holder runs here any more (LEASE-3).
                    continue;
                }
                ending.get_or_insert(Obstacle::Ending { unit, holder });
            } else {
                return Some(Obstacle::Held { unit, holder });
            }
        }
        ending
    }

    /// Grants the units, all free (LEASE-1, LEASE-2).
    pub(crate) fn grant(
        &mut self,
        holder: &str,
        units: &BTreeSet<Unit>,
        actors: BTreeSet<ActorId>,
    ) -> Result<LeaseId, Obstacle> {
        if let Some(obstacle) = self.obstacle(units) {
            return Err(obstacle);
        }
        let lease = LeaseId(self.next);
        self.next += 1;
        for &unit in units {
            self.uses.insert(
                unit,
                Use {
                    lease,
                    running: false,
                    process: None,
                },
            );
        }
        let record = Record {
            holder: holder.to_owned(),
            actors,
            ending: false,
            dropped: false,
            watchers: Vec::new(),
            end_watchers: Vec::new(),
            deaths: Vec::new(),
            panics: Vec::new(),
        };
        self.leases.insert(lease, record);
        Ok(lease)
    }

    /// Marks programs as running on all of these lanes, or on none.
    pub(crate) fn start(&mut self, lease: LeaseId, lanes: &[LaneId]) -> Result<(), NotStarted> {
        for &lane in lanes {
            match self.uses.get(&Unit::Lane(lane)) {
                Some(taken) if taken.lease != lease => return Err(NotStarted::NotHeld(lane)),
                None => return Err(NotStarted::NotHeld(lane)),
                Some(taken) if taken.running => return Err(NotStarted::Running(lane)),
                Some(_) => {}
            }
        }
        for &lane in lanes {
            if let Some(taken) = self.uses.get_mut(&Unit::Lane(lane)) {
                taken.running = true;
            }
        }
        Ok(())
    }

    /// Marks the idle ones of these lanes of a worker process as running, for programs that are on their way; returns which
    /// those are.
    pub(crate) fn reserve(&mut self, lease: LeaseId, process: ProcessId, lanes: &[LaneId]) -> Vec<LaneId> {
        let mut reserved = Vec::new();
        for &lane in lanes {
            match self.uses.get_mut(&Unit::Lane(lane)) {
                Some(taken) if taken.lease == lease && !taken.running => {
                    taken.running = true;
                    taken.process = Some(process);
                    reserved.push(lane);
                }
                _ => {}
            }
        }
        reserved
    }

    /// A lane's program has ended, with the text of its panic if it did not return. Answers who must be told: a program that ends
    /// because its lease does is no news.
    pub(crate) fn ended(&mut self, lane: LaneId, panic: Option<String>) -> Vec<EndWatcher> {
        let unit = Unit::Lane(lane);
        let Some(taken) = self.uses.get_mut(&unit) else {
            return Vec::new();
        };
        taken.running = false;
        let lease = taken.lease;
        let Some(record) = self.leases.get_mut(&lease) else {
            return Vec::new();
        };
        record.panics.extend(panic.map(|text| (lane, text)));
        if record.dropped {
            self.uses.remove(&unit);
            self.forget_if_empty(lease);
        } else if !record.ending {
            return record.end_watchers.clone();
        }
        Vec::new()
    }

    /// The programs in a worker process have ended with it, whoever else still knows their actors.
    pub(crate) fn ended_with(&mut self, process: ProcessId) {
        let there = self
            .uses
            .iter()
            .filter(|(_, taken)| taken.process == Some(process));
        let lanes: Vec<_> = there.map(|(unit, _)| *unit).collect();
        for unit in lanes {
            if let Unit::Lane(lane) = unit {
                self.ended(lane, None);
            }
        }
    }

    /// The lanes of the lease whose programs have not ended; lost lanes are not waited for.
    pub(crate) fn running(&self, lease: LeaseId) -> Vec<LaneId> {
        let mine = self
            .uses
            .iter()
            .filter(|(_, taken)| taken.lease == lease && taken.running);
        mine.filter_map(|(unit, _)| match *unit {
            Unit::Lane(lane) if !self.lost.contains(&lane) => Some(lane),
            _ => None,
        })
        .collect()
    }

    pub(crate) fn ending(&mut self, lease: LeaseId) {
        if let Some(record) = self.leases.get_mut(&lease) {
            record.ending = true;
        }
    }

    /// The holder is gone: what does not run is free, the rest follows as it ends (LEASE-3).
    pub(crate) fn release(&mut self, lease: LeaseId) {
        self.uses.retain(|_, taken| taken.lease != lease || taken.running);
        if let Some(record) = self.leases.get_mut(&lease) {
            record.ending = true;
            record.dropped = true;
            record.watchers.clear();
            record.end_watchers.clear();
        }
        self.forget_if_empty(lease);
    }

    fn forget_if_empty(&mut self, lease: LeaseId) {
        if !self.uses.values().any(|taken| taken.lease == lease) {
            self.leases.remove(&lease);
        }
    }

    /// Gives a lane up for good (LEASE-4).
    pub(crate) fn lose(&mut self, lane: LaneId) {
        self.lost.insert(lane);
    }

    /// Adds a watcher; answers the deaths it has missed.
    pub(crate) fn watch(&mut self, lease: LeaseId, watcher: Watcher) -> Vec<Death> {
        let Some(record) = self.leases.get_mut(&lease) else {
            return Vec::new();
        };
        record.watchers.push(watcher);
        record.deaths.clone()
    }

    /// Adds a watcher of programs that end.
    pub(crate) fn watch_ends(&mut self, lease: LeaseId, watcher: EndWatcher) {
        if let Some(record) = self.leases.get_mut(&lease) {
            record.end_watchers.push(watcher);
        }
    }

    /// Notes a death with every lease that holds one of the dead; answers who must be told.
    pub(crate) fn died(&mut self, death: &Death) -> Vec<Watcher> {
        let mut watchers = Vec::new();
        for record in self.leases.values_mut() {
            if death.actors.iter().any(|actor| record.actors.contains(actor)) {
                record.deaths.push(death.clone());
                watchers.extend(record.watchers.iter().cloned());
            }
        }
        watchers
    }

    /// The actors of each lease, for telling all holders of a shutdown.
    pub(crate) fn held(&self) -> Vec<Vec<ActorId>> {
        self.leases
            .values()
            .map(|record| record.actors.iter().copied().collect())
            .collect()
    }

    /// The panics of the lease's programs so far.
    pub(crate) fn panics(&self, lease: LeaseId) -> Vec<(LaneId, String)> {
        self.leases
            .get(&lease)
            .map_or_else(Vec::new, |record| record.panics.clone())
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
