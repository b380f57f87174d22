//! The order of pieces that are begun before others come from the source.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Instant;

/// The moment before which a piece is not begun, and its number among all pieces of the queue. A piece without such a moment comes first.
type Turn = (Option<Instant>, u64);

/// Pieces in the order in which they become due; those that become due together are in the order in which they came.
pub(super) struct DueQueue<P> {
    pieces: BTreeMap<Turn, P>,
    /// The pieces that have come so far.
    count: u64,
}

impl<P> Default for DueQueue<P> {
    fn default() -> Self {
        DueQueue {
            pieces: BTreeMap::new(),
            count: 0,
        }
    }
}

impl<P> DueQueue<P> {
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Adds a piece that is not begun before `due`.
    pub(super) fn push(&mut self, due: Option<Instant>, piece: P) {
        self.count += 1;
        self.pieces.insert((due, self.count), piece);
    }

    /// Takes the first piece, if it is due.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<P> {
        let first = self.pieces.first_entry()?;
        let (due, _) = first.key();
        due.is_none_or(|due| due <= now).then(|| first.remove())
    }

    /// Takes the piece of the highest rank, the first one of several, whether it is due or not. A piece without a rank stays.
    pub(super) fn take_highest<R: Ord>(&mut self, rank: impl Fn(&P) -> Option<R>) -> Option<P> {
        let ranked = self
            .pieces
            .iter()
            .filter_map(|(turn, piece)| Some((Reverse(rank(piece)?), *turn)));
        let (_, turn) = ranked.min()?;
        self.pieces.remove(&turn)
    }

    /// The moment at which the first piece becomes due; `now` if it has none.
    pub(super) fn first_due(&self, now: Instant) -> Option<Instant> {
        let ((due, _), _) = self.pieces.first_key_value()?;
        Some(due.unwrap_or(now))
    }

    /// The moment at which the next piece becomes due that is not due now.
    pub(super) fn next_due(&self, now: Instant) -> Option<Instant> {
        let later = (Bound::Excluded((Some(now), u64::MAX)), Bound::Unbounded);
        let ((due, _), _) = self.pieces.range(later).next()?;
        *due
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use super::*;

    #[test]
    fn what_becomes_due_first_is_first_and_what_is_not_due_stays() {
        let (now, mut queue) = (Instant::now(), DueQueue::default());
        let at = |seconds| now.checked_add(Duration::from_secs(seconds));
        assert_eq!((queue.pop_due(now), queue.first_due(now)), (None, None));
        for (due, piece) in [
            (at(3), 'f'),
            (at(1), 'c'),
            (None, 'a'),
            (at(2), 'e'),
            (at(1), 'd'),
            (None, 'b'),
        ] {
            queue.push(due, piece);
        }
        let due = |queue: &mut DueQueue<char>, seconds| -> String {
            let now = at(seconds).unwrap();
            std::iter::from_fn(|| queue.pop_due(now)).collect()
        };
        assert_eq!((queue.first_due(now), queue.next_due(now)), (Some(now), at(1)));
        assert_eq!(
            queue.next_due(at(1).unwrap()),
            at(2),
            "those that are due now are left out"
        );
        assert_eq!(due(&mut queue, 0), "ab");
        assert_eq!(queue.first_due(now), at(1));
        assert_eq!(due(&mut queue, 2), "cde");
        assert_eq!((due(&mut queue, 2).as_str(), queue.is_empty()), ("", false));
        assert_eq!(queue.next_due(at(3).unwrap()), None);
        assert_eq!((due(&mut queue, 3).as_str(), queue.is_empty()), ("f", true));
    }
}
