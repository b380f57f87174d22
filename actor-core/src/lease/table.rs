//! The lease table: the holder of each unit, and the rules of lending, as plain state. No lock, no clock, no thread.
//!
//! The unit of lending is a lane, because a lane runs one program at a time. An inline actor has no lane of its own and
//! is lent by itself. Rules:
//! - `LEASE-1`: a unit has at most one lease.
//! - `LEASE-2`: a lease is granted whole or not at all.
//! - `LEASE-3`: a unit whose program runs stays with its lease, even a dropped one, until the program has ended.
//! - `LEASE-4`: a lost lane is never granted again.

use std::sync::Arc;

use selvedge_cluster::id_map::{IdKey, IdMap, IdSet};

use crate::death::Death;
use crate::id::{ActorId, LaneId, ProcessId};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LeaseId(u64);

selvedge_cluster::id_key!(LeaseId as u64: |lease| lease.0);

/// A unit that can be lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Unit {
    Lane(LaneId),
    Inline(ActorId),
}

impl IdKey for Unit {
    type Number = u128;

    const BITS: u32 = u16::BITS + u32::BITS;

    fn number(self) -> u128 {
        match self {
            Self::Lane(lane) => (0_u16, lane).number(),
            Self::Inline(actor) => (1_u16, actor).number(),
        }
    }
}

pub(crate) type Watcher = Arc<dyn Fn(&Death) + Send + Sync>;
/// A callback for the end of a program; it is not told which program ended.
pub(crate) type EndWatcher = Arc<dyn Fn() + Send + Sync>;

struct Use {
    lease: LeaseId,
    running: bool,
    /// The worker process that a program was sent to.
    process: Option<ProcessId>,
}

struct Record {
    holder: String,
    actors: IdSet<ActorId>,
    ending: bool,
    dropped: bool,
    watchers: Vec<Watcher>,
    end_watchers: Vec<EndWatcher>,
    deaths: Vec<Death>,
    /// The messages of programs' panics, by lane.
    panics: Vec<(LaneId, String)>,
}

/// The obstacle to a lease.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// Held by a lease that is not ending.
    Held { unit: Unit, holder: String },
    /// Held by a lease that is ending, so waiting is worthwhile.
    Ending { unit: Unit, holder: String },
    /// The lane's thread did not return from an earlier program.
    Lost { unit: Unit },
}

/// The reason that a program may not be started.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotStarted {
    NotHeld(LaneId),
    Running(LaneId),
}

#[derive(Default)]
pub(crate) struct LeaseTable {
    uses: IdMap<Unit, Use>,
    leases: IdMap<LeaseId, Record>,
    lost: IdSet<LaneId>,
    next: u64,
}

impl LeaseTable {
    /// Returns an obstacle to a lease of `units`, if there is one. A final obstacle has precedence over one that ends,
    /// so that a refusal does not wait.
    pub(crate) fn obstacle(&self, units: &IdSet<Unit>) -> Option<Obstacle> {
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
                    // No program of the old holder runs here any more (LEASE-3).
                    continue;
                }
                ending.get_or_insert(Obstacle::Ending { unit, holder });
            } else {
                return Some(Obstacle::Held { unit, holder });
            }
        }
        ending
    }

    /// Grants a lease of the units, if all of them are free (LEASE-1, LEASE-2).
    pub(crate) fn grant(
        &mut self,
        holder: &str,
        units: &IdSet<Unit>,
        actors: IdSet<ActorId>,
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

    /// Marks programs as running on all of these lanes, or on none if there is an error.
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

    /// Marks those of these lanes of a worker process that are idle as running, for programs that are being sent.
    /// Returns the lanes that it has marked.
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

    /// Whether a lane runs a program in this worker process.
    pub(crate) fn runs_in(&self, process: ProcessId, lane: LaneId) -> bool {
        let taken = self.uses.get(&Unit::Lane(lane));
        taken.is_some_and(|taken| taken.running && taken.process == Some(process))
    }

    /// Records that a lane's program has ended, with the text of its panic if it panicked. Returns the watchers to
    /// call: none if the lease is ending, because the end is then expected.
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

    /// Records that the programs in a worker process have ended with the process, whether or not their actors are still
    /// listed.
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

    /// Returns the lanes of the lease whose programs have not ended, except lost lanes, which are not waited for.
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

    /// Releases the lease of a holder that is gone: units without a program are free now, the others when their
    /// programs end (LEASE-3).
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

    /// Gives up a lane for good (LEASE-4).
    pub(crate) fn lose(&mut self, lane: LaneId) {
        self.lost.insert(lane);
    }

    /// Adds a watcher; returns the deaths that it has missed.
    pub(crate) fn watch(&mut self, lease: LeaseId, watcher: Watcher) -> Vec<Death> {
        let Some(record) = self.leases.get_mut(&lease) else {
            return Vec::new();
        };
        record.watchers.push(watcher);
        record.deaths.clone()
    }

    /// Adds a watcher for the ends of programs.
    pub(crate) fn watch_ends(&mut self, lease: LeaseId, watcher: EndWatcher) {
        if let Some(record) = self.leases.get_mut(&lease) {
            record.end_watchers.push(watcher);
        }
    }

    /// Records a death in every lease that holds one of the dead actors; returns the watchers to call.
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

    /// Returns the actors of each lease, so that all holders can be told of a shutdown.
    pub(crate) fn held(&self) -> Vec<Vec<ActorId>> {
        self.leases
            .values()
            .map(|record| record.actors.iter().copied().collect())
            .collect()
    }

    /// Returns the panics of the lease's programs so far.
    pub(crate) fn panics(&self, lease: LeaseId) -> Vec<(LaneId, String)> {
        self.leases
            .get(&lease)
            .map_or_else(Vec::new, |record| record.panics.clone())
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
