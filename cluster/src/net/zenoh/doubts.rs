//! Evidence of whether nodes live. A node has a token at its router, which takes the token back when it has lost the node. The token
//! of a node that lives is gone too while a router starts again, so its absence is a doubt, which time and a connection settle.
//!
//! A doubt is settled against a node by two looks, a step apart, at both of which this process has a router and the node has no
//! token, if nothing was heard of it between. While there is no router, nothing is settled.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use super::packet::NodeId;

/// The time between two looks: long enough for a node to connect again after its router has.
const STEP: Duration = Duration::from_secs(1);

/// The tokens that are there, and the nodes that are missed.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    present: HashSet<NodeId>,
    missed: HashMap<NodeId, Missed>,
}

#[derive(Debug)]
struct Missed {
    look: Instant,
    /// Whether there was a router at the look before.
    had_router: bool,
}

impl Missed {
    fn since(now: Instant) -> Self {
        Missed {
            look: now + STEP,
            had_router: false,
        }
    }
}

impl Doubts {
    /// A token is there.
    pub(super) fn appeared(&mut self, node: NodeId) {
        self.present.insert(node);
        self.missed.remove(&node);
    }

    /// A token is gone.
    pub(super) fn vanished(&mut self, node: NodeId) {
        self.present.remove(&node);
    }

    /// A node matters from now on, or still does. Without a token it is missed.
    pub(super) fn miss(&mut self, node: NodeId, now: Instant) {
        if !self.present.contains(&node) {
            self.missed.entry(node).or_insert_with(|| Missed::since(now));
        }
    }

    /// A node does not matter any more.
    pub(super) fn settle(&mut self, node: NodeId) {
        self.missed.remove(&node);
    }

    /// The token of a node is not watched any more.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.present.remove(&node);
    }

    /// A node has said something.
    pub(super) fn heard(&mut self, node: NodeId, now: Instant) {
        if let Some(missed) = self.missed.get_mut(&node) {
            *missed = Missed::since(now);
        }
    }

    /// The time of the next look.
    pub(super) fn look_at(&self) -> Option<Instant> {
        self.missed.values().map(|missed| missed.look).min()
    }

    /// Looks at the nodes whose time has come. Returns those that are lost.
    pub(super) fn look(&mut self, now: Instant, has_router: bool) -> Vec<NodeId> {
        let mut lost = Vec::new();
        for (node, missed) in &mut self.missed {
            if missed.look > now {
                continue;
            }
            if has_router && missed.had_router {
                lost.push(*node);
            }
            missed.had_router = has_router;
            missed.look = now + STEP;
        }
        for node in &lost {
            self.missed.remove(node);
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(1);

    /// The steps after which a node is lost, if at each look there is a router or none.
    fn steps(routers: &[bool]) -> Option<usize> {
        let begun = Instant::now();
        let mut doubts = Doubts::default();
        doubts.appeared(NODE);
        doubts.miss(NODE, begun);
        assert_eq!(doubts.look_at(), None, "its token is there");
        doubts.vanished(NODE);
        doubts.miss(NODE, begun);
        let mut looks = routers.iter().enumerate();
        let lost = looks.find(|(step, has_router)| {
            let now = begun + STEP * (*step as u32 + 1);
            assert_eq!(doubts.look_at(), Some(now));
            doubts.look(now, **has_router) == [NODE]
        });
        lost.map(|(step, _)| step)
    }

    #[test]
    fn a_node_is_lost_after_two_looks_with_a_router_and_not_while_there_is_none() {
        assert_eq!(steps(&[true, true]), Some(1));
        assert_eq!(steps(&[false; 20]), None);
        assert_eq!(steps(&[true, false, true]), None);
        assert_eq!(steps(&[false, true, true, true]), Some(2));
    }

    #[test]
    fn a_node_that_is_heard_or_has_its_token_again_is_not_lost() {
        let begun = Instant::now();
        let mut doubts = Doubts::default();
        doubts.miss(NODE, begun);
        assert!(doubts.look(begun + STEP, true).is_empty());
        doubts.heard(NODE, begun + STEP);
        assert!(doubts.look(begun + STEP * 2, true).is_empty());
        doubts.appeared(NODE);
        assert_eq!(doubts.look_at(), None);
        assert!(doubts.look(begun + STEP * 9, true).is_empty());
    }
}
