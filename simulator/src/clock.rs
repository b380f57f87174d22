//! Vector clocks: the operations that are known to have happened before another one.
//!
//! A stream is a component, and counts its operations. The clock of an operation holds, for every stream, the last
//! operation that is ordered before it (Fidge and Mattern, 1988). One operation is ordered before another if and only
//! if the other's clock has reached its number: so its *epoch* identifies an operation, and one comparison decides
//! (FastTrack, Flanagan and Freund, 2009).

use std::collections::BTreeMap;

/// A stream of any process: the process and a number within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Component(pub(crate) u64);

impl Component {
    pub(crate) fn new(pid: u32, index: u32) -> Self {
        Component(u64::from(pid) << 32 | u64::from(index))
    }

    pub(crate) fn pid(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// One operation: its stream, and its number in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch {
    pub(crate) component: Component,
    pub(crate) number: u64,
}

/// The operations that are known to have happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct VectorClock(BTreeMap<Component, u64>);

impl VectorClock {
    /// Adds everything that `other` knows.
    pub(crate) fn merge(&mut self, other: &VectorClock) {
        for (component, number) in &other.0 {
            self.reach(Epoch {
                component: *component,
                number: *number,
            });
        }
    }

    /// Adds this operation, and all operations before it on its stream.
    pub(crate) fn reach(&mut self, epoch: Epoch) {
        let known = self.0.entry(epoch.component).or_default();
        *known = (*known).max(epoch.number);
    }

    /// Whether the operation is ordered before the owner of this clock.
    pub(crate) fn covers(&self, epoch: Epoch) -> bool {
        self.0
            .get(&epoch.component)
            .is_some_and(|known| *known >= epoch.number)
    }

    /// Returns every known stream with its last known operation.
    pub(crate) fn epochs(&self) -> impl ExactSizeIterator<Item = Epoch> {
        self.0.iter().map(|(component, number)| Epoch {
            component: *component,
            number: *number,
        })
    }
}

impl FromIterator<Epoch> for VectorClock {
    fn from_iter<I: IntoIterator<Item = Epoch>>(epochs: I) -> Self {
        let mut clock = VectorClock::default();
        epochs.into_iter().for_each(|epoch| clock.reach(epoch));
        clock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(index: u32, number: u64) -> Epoch {
        Epoch {
            component: Component::new(7, index),
            number,
        }
    }

    #[test]
    fn a_clock_covers_what_it_reached_and_what_came_before() {
        let mut clock: VectorClock = [at(1, 5)].into_iter().collect();
        assert!(clock.covers(at(1, 5)) && clock.covers(at(1, 4)));
        assert!(!clock.covers(at(1, 6)) && !clock.covers(at(2, 1)));
        clock.merge(&[at(1, 3), at(2, 2)].into_iter().collect());
        assert!(clock.covers(at(1, 5)) && clock.covers(at(2, 2)));
        assert_eq!(at(1, 1).component.pid(), 7);
    }
}
