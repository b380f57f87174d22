//! The reads and writes of an allocation, and the pairs among them that no edge orders.

use std::ops::Range;

use crate::clock::{Epoch, VectorClock};

/// The number of accesses kept for one allocation. Beyond it the oldest are dropped, and races with them are not found.
pub(crate) const ACCESSES_MAX: usize = 1024;

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    Read,
    Write,
}

/// One access of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) epoch: Epoch,
    pub(crate) intent: Intent,
    pub(crate) bytes: Range<u64>,
    /// The operation's name, for reports.
    pub(crate) name: String,
}

impl Access {
    fn conflicts(&self, other: &Access) -> bool {
        let overlap = self.bytes.start < other.bytes.end && other.bytes.start < self.bytes.end;
        overlap && (self.intent == Intent::Write || other.intent == Intent::Write)
    }

    /// Whether every access that races with `old` also races with this one or is ordered after it: then `old` may be
    /// dropped.
    fn supersedes(&self, old: &Access) -> bool {
        let contains = self.bytes.start <= old.bytes.start && old.bytes.end <= self.bytes.end;
        // A write is ordered after all accesses that it did not race with. A read is ordered only after older reads of
        // its own stream.
        contains
            && (self.intent == Intent::Write
                || old.intent == Intent::Read && old.epoch.component == self.epoch.component)
    }
}

/// The accesses to one allocation that a later one may race with.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) accesses: Vec<Access>,
}

impl History {
    /// Adds an access of an operation with this clock; returns the accesses that it races with.
    pub(crate) fn add(&mut self, new: Access, clock: &VectorClock) -> Vec<Access> {
        let races: Vec<Access> = self
            .accesses
            .iter()
            .filter(|old| old.epoch != new.epoch && old.conflicts(&new) && !clock.covers(old.epoch))
            .cloned()
            .collect();
        self.accesses.retain(|old| !new.supersedes(old));
        if self.accesses.len() >= ACCESSES_MAX {
            self.accesses.remove(0);
        }
        self.accesses.push(new);
        races
    }

    /// Returns the accesses that are not ordered before the owner of this clock.
    pub(crate) fn unknown_to(&self, clock: &VectorClock) -> impl Iterator<Item = &Access> {
        self.accesses.iter().filter(|access| !clock.covers(access.epoch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Component;

    fn access(stream: u32, number: u64, intent: Intent, bytes: Range<u64>) -> Access {
        Access {
            epoch: Epoch {
                component: Component::new(1, stream),
                number,
            },
            intent,
            bytes,
            name: String::new(),
        }
    }

    fn knows(all: &[&Access]) -> VectorClock {
        all.iter().map(|access| access.epoch).collect()
    }

    #[test]
    fn a_read_that_nothing_orders_after_the_write_is_a_race() {
        let write = access(1, 1, Intent::Write, 0..8);
        let read = access(2, 1, Intent::Read, 4..12);
        let mut history = History::default();
        assert!(history.add(write.clone(), &knows(&[])).is_empty());
        assert_eq!(history.add(read.clone(), &knows(&[])), vec![write.clone()]);
        let mut ordered = History::default();
        ordered.add(write.clone(), &knows(&[]));
        assert!(ordered.add(read, &knows(&[&write])).is_empty());
    }

    #[test]
    fn reads_do_not_race_and_neither_do_other_bytes() {
        let mut history = History::default();
        history.add(access(1, 1, Intent::Read, 0..8), &knows(&[]));
        assert!(
            history
                .add(access(2, 1, Intent::Read, 0..8), &knows(&[]))
                .is_empty()
        );
        assert!(
            history
                .add(access(3, 1, Intent::Write, 8..16), &knows(&[]))
                .is_empty()
        );
    }

    /// Dropping superseded accesses must not hide a race: compares with a history that drops nothing.
    #[test]
    fn what_is_forgotten_hides_no_race() {
        let mut random = 88_172_645_463_325_252_u64;
        let mut next = move |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        for _ in 0..2000 {
            let mut history = History::default();
            let mut everything: Vec<Access> = Vec::new();
            let mut clocks = vec![VectorClock::default(); 3];
            for _ in 0..12 {
                let stream = next(3) as usize;
                if next(3) == 0 {
                    let other = clocks[next(3) as usize].clone();
                    clocks[stream].merge(&other);
                }
                let number = everything
                    .iter()
                    .filter(|access| access.epoch.component == Component::new(1, stream as u32))
                    .count() as u64
                    + 1;
                let start = next(4) * 4;
                let intent = if next(2) == 0 { Intent::Read } else { Intent::Write };
                let new = access(stream as u32, number, intent, start..start + 4 + next(2) * 4);
                clocks[stream].reach(new.epoch);
                let clock = &clocks[stream];
                let expected = everything
                    .iter()
                    .any(|old| old.conflicts(&new) && !clock.covers(old.epoch));
                let found = !history.add(new.clone(), clock).is_empty();
                assert_eq!(expected, found, "{everything:?} then {new:?} with {clock:?}");
                everything.push(new);
                if found {
                    break; // after the first race the older accesses do not matter
                }
            }
        }
    }
}
