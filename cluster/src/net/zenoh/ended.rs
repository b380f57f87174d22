//! The dialers whose streams have ended. A dialer that gets no answer for a moment asks again, and both of its packets may arrive: a
//! listener that has had a stream with it must not be handed a second one, which nobody is at the other end of.

use std::collections::{HashSet, VecDeque};

use super::packet::StreamPlace;

/// The dialers that are remembered, those that have ended last.
const ENDED_MAX: usize = 1024;

/// The last dialers whose streams have ended. The number of a place is drawn at random for each stream, so none dials twice.
#[derive(Debug, Default)]
pub(super) struct EndedDialers {
    known: HashSet<StreamPlace>,
    oldest_first: VecDeque<StreamPlace>,
}

impl EndedDialers {
    /// The stream of a dialer has ended.
    pub(super) fn insert(&mut self, dialer: StreamPlace) {
        if self.known.insert(dialer) {
            self.oldest_first.push_back(dialer);
        }
        if self.oldest_first.len() > ENDED_MAX
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// Whether a dialer has had its stream.
    pub(super) fn contains(&self, dialer: StreamPlace) -> bool {
        self.known.contains(&dialer)
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::NodeId;
    use super::*;

    fn dialer(number: u64) -> StreamPlace {
        let node = NodeId(2);
        StreamPlace { node, number }
    }

    #[test]
    fn the_last_ones_are_known_and_no_others_kept() {
        let mut ended = EndedDialers::default();
        for number in 0..3 * ENDED_MAX as u64 {
            ended.insert(dialer(number));
            ended.insert(dialer(number));
            assert!(ended.contains(dialer(number)));
        }
        assert!(!ended.contains(dialer(2 * ENDED_MAX as u64 - 1)));
        assert!(ended.contains(dialer(2 * ENDED_MAX as u64)));
        assert_eq!(
            (ended.known.len(), ended.oldest_first.len()),
            (ENDED_MAX, ENDED_MAX)
        );
    }
}
