//! The nodes whose tokens are watched: those to which this node has streams, and a few to which it had some and may have others soon. A
//! router then tells a node of its peers alone, however many nodes a cluster has.
//!
//! The keeper of the node declares the watches, one by one, so it may be behind. A node stays watched until the keeper has heard otherwise:
//! what is known of its token is true as long as that.

use std::collections::{HashMap, HashSet, VecDeque};

use super::packet::NodeId;

/// The nodes without streams that stay watched.
const IDLE_MAX: usize = 64;

/// The streams to each node, and the nodes that the keeper watches.
#[derive(Debug, Default)]
pub(super) struct Watches {
    streams: HashMap<NodeId, usize>,
    watched: HashSet<NodeId>,
    /// The nodes that are watched and have no streams, those that have had none for longest first.
    idle: VecDeque<NodeId>,
    /// The nodes with streams that are not watched, and those without for which there is no room among the idle ones.
    behind: HashSet<NodeId>,
}

/// A change that the keeper has to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenWatch {
    Begin(NodeId),
    End(NodeId),
}

impl Watches {
    /// A stream to a node begins.
    pub(super) fn enter(&mut self, node: NodeId) {
        *self.streams.entry(node).or_default() += 1;
        match self.watched.contains(&node) {
            true => {
                self.idle.retain(|idle| *idle != node);
                self.behind.remove(&node);
            }
            false => drop(self.behind.insert(node)),
        }
    }

    /// A stream to a node has ended. Returns whether it was the last one.
    pub(super) fn leave(&mut self, node: NodeId) -> bool {
        if let Some(count) = self.streams.get_mut(&node) {
            *count -= 1;
            if *count > 0 {
                return false;
            }
        }
        self.streams.remove(&node);
        self.behind.remove(&node);
        if self.watched.contains(&node) {
            self.idle.push_back(node);
        }
        if self.idle.len() > IDLE_MAX {
            self.behind.extend(self.idle.pop_front());
        }
        true
    }

    /// Whether there is a stream to a node.
    pub(super) fn has_streams(&self, node: NodeId) -> bool {
        self.streams.contains_key(&node)
    }

    /// Whether what is told of the token of a node is of interest.
    pub(super) fn is_watched(&self, node: NodeId) -> bool {
        self.watched.contains(&node)
    }

    /// Takes the next change, which counts as made.
    pub(super) fn next(&mut self) -> Option<TokenWatch> {
        let node = *self.behind.iter().next()?;
        self.behind.remove(&node);
        Some(match self.streams.contains_key(&node) {
            true => {
                self.watched.insert(node);
                TokenWatch::Begin(node)
            }
            false => {
                self.watched.remove(&node);
                TokenWatch::End(node)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(1);

    #[test]
    fn a_node_is_watched_from_its_first_stream_on_until_others_take_its_place_after_the_last_one() {
        let mut watches = Watches::default();
        watches.enter(NODE);
        watches.enter(NODE);
        assert_eq!(watches.next(), Some(TokenWatch::Begin(NODE)));
        assert_eq!(watches.next(), None);
        assert!(!watches.leave(NODE));
        assert!(watches.leave(NODE));
        assert!(watches.is_watched(NODE) && !watches.has_streams(NODE));
        assert_eq!(watches.next(), None);
        for other in 0..IDLE_MAX as u128 {
            let other = NodeId(100 + other);
            watches.enter(other);
            assert_eq!(watches.next(), Some(TokenWatch::Begin(other)));
            assert_eq!(watches.next(), None);
            watches.leave(other);
        }
        assert!(watches.is_watched(NODE), "the keeper has not heard of it");
        assert_eq!(watches.next(), Some(TokenWatch::End(NODE)));
        assert!(!watches.is_watched(NODE));
        assert_eq!(watches.next(), None);
    }

    #[test]
    fn a_node_that_is_to_be_watched_no_more_and_has_a_stream_again_stays_watched() {
        let mut watches = Watches::default();
        for node in 0..=IDLE_MAX as u128 {
            watches.enter(NodeId(node));
            assert_eq!(watches.next(), Some(TokenWatch::Begin(NodeId(node))));
        }
        for node in 0..=IDLE_MAX as u128 {
            watches.leave(NodeId(node));
        }
        watches.enter(NodeId(0));
        assert_eq!(watches.next(), None);
        assert!(watches.is_watched(NodeId(0)));
        // One among the idle leaves a place.
        watches.enter(NodeId(7));
        watches.leave(NodeId(0));
        assert_eq!(watches.next(), None);
        assert_eq!((watches.idle.len(), watches.behind.len()), (IDLE_MAX, 0));
    }

    #[test]
    fn a_stream_that_is_over_before_the_keeper_has_heard_of_it_costs_no_watch() {
        let mut watches = Watches::default();
        for _ in 0..1000 {
            watches.enter(NODE);
            watches.leave(NODE);
        }
        assert_eq!(watches.next(), None);
        watches.enter(NODE);
        assert_eq!(watches.next(), Some(TokenWatch::Begin(NODE)));
        watches.leave(NODE);
        watches.enter(NODE);
        assert_eq!(watches.next(), None, "it is watched still");
    }
}
