//! The lives of processes that are over.

use std::collections::BTreeMap;

use crate::peer::{Incarnation, Peer, ProcessId};

/// By process, the last life that is over. Processes whose numbers follow each other take the room of one, if these are the lives of the same
/// incarnation. So the list stays short however many processes come and go.
///
/// ```
/// use selvedge_cluster::last_lives::LastLives;
/// use selvedge_cluster::peer::{Incarnation, Peer, ProcessId};
///
/// let life = |number| Peer { process: ProcessId::HEAD, incarnation: Incarnation(number) };
/// let mut over = LastLives::default();
/// over.note(life(2));
/// assert!(over.has(life(1)) && over.has(life(2)) && !over.has(life(3)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LastLives(BTreeMap<u32, Run>);

/// Processes whose numbers follow each other, from the key of the run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Run {
    last: u32,
    incarnation: Incarnation,
}

impl LastLives {
    /// Notes that a life is over, and with it those before.
    pub fn note(&mut self, peer: Peer) {
        let (number, incarnation) = (peer.process.number(), peer.incarnation);
        if let Some((first, run)) = self.run(number) {
            if run.incarnation >= incarnation {
                return;
            }
            self.0.remove(&first);
            if first < number {
                let last = number - 1;
                self.0.insert(first, Run { last, ..run });
            }
            if number < run.last {
                self.0.insert(number + 1, run);
            }
        }
        let of_same = |(_, run): &(u32, Run)| run.incarnation == incarnation;
        let below = number.checked_sub(1).and_then(|below| self.run(below));
        let above = number.checked_add(1).and_then(|above| self.run(above));
        let (below, above) = (below.filter(of_same), above.filter(of_same));
        for (first, _) in below.into_iter().chain(above) {
            self.0.remove(&first);
        }
        let first = below.map_or(number, |(first, _)| first);
        let last = above.map_or(number, |(_, run)| run.last);
        self.0.insert(first, Run { last, incarnation });
    }

    /// Whether a life is over: it was noted, or a later one of its process.
    #[must_use]
    pub fn has(&self, peer: Peer) -> bool {
        let run = self.run(peer.process.number());
        run.is_some_and(|(_, run)| run.incarnation >= peer.incarnation)
    }

    /// Whether any life of a process is over.
    #[must_use]
    pub fn has_any_of(&self, process: ProcessId) -> bool {
        self.run(process.number()).is_some()
    }

    /// The run of a number, with its first number.
    fn run(&self, number: u32) -> Option<(u32, Run)> {
        let (first, run) = self.0.range(..=number).next_back()?;
        (number <= run.last).then_some((*first, *run))
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn peer(number: u32, incarnation: u32) -> Peer {
        Peer {
            process: ProcessId::new(number).unwrap(),
            incarnation: Incarnation(incarnation),
        }
    }

    #[test]
    fn processes_that_come_and_go_take_the_room_of_one() {
        let mut lives = LastLives::default();
        // Neighbours may end in any order, and the first and the last number have one neighbour.
        for number in (1..=1000)
            .rev()
            .chain(2001..=3000)
            .chain(1001..=2000)
            .chain([u32::MAX])
        {
            lives.note(peer(number, 1));
        }
        assert_eq!(lives.0.len(), 2);
        lives.note(peer(500, 2));
        assert_eq!(lives.0.len(), 4);
        assert!(lives.has(peer(500, 2)) && !lives.has(peer(499, 2)) && !lives.has(peer(501, 2)));
    }

    proptest! {
        #[test]
        fn the_runs_say_what_a_plain_list_says(notes in vec((1_u32..20, 0_u32..4), 0..100)) {
            let (mut lives, mut plain) = (LastLives::default(), BTreeMap::new());
            for (number, incarnation) in notes {
                lives.note(peer(number, incarnation));
                let last = plain.entry(number).or_insert(incarnation);
                *last = incarnation.max(*last);
            }
            for number in 1..21 {
                let last = plain.get(&number).copied();
                for incarnation in 0..5 {
                    let is_over = last.is_some_and(|last| incarnation <= last);
                    prop_assert_eq!(lives.has(peer(number, incarnation)), is_over);
                }
                prop_assert_eq!(lives.has_any_of(peer(number, 0).process), last.is_some());
            }
            // No two runs could be one, so lists that say the same are equal.
            let joins = |(left, right): (&(u32, u32), &(u32, u32))| left.0 + 1 == right.0 && left.1 == right.1;
            let entries: Vec<(u32, u32)> = plain.into_iter().collect();
            let joined = entries.iter().zip(entries.iter().skip(1)).filter(|pair| joins(*pair)).count();
            prop_assert_eq!(lives.0.len(), entries.len() - joined);
        }
    }
}
