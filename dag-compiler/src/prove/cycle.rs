//! Which of the stuck parties are to blame.

use std::collections::BTreeMap;

use petgraph::algo::tarjan_scc;
use petgraph::graph::{DiGraph, NodeIndex};

use super::Blocked;
use crate::ir::Writer;

/// The parties that wait for each other, each followed by the one it waits for (`LIVE-3`): a strongly connected
/// component (Tarjan 1972), the first in order of lanes where there are several. All parties if none stands out.
pub(super) fn cycle(stuck: Vec<Blocked>) -> Vec<Blocked> {
    let key = |party: Writer| match party {
        Writer::Submit => None,
        Writer::Lane(lane) => Some(lane),
    };
    let places: BTreeMap<_, usize> = stuck
        .iter()
        .enumerate()
        .map(|(place, blocked)| (key(blocked.party), place))
        .collect();
    let waits: Vec<Option<usize>> = stuck
        .iter()
        .map(|blocked| places.get(&key(blocked.waits_for)).copied())
        .collect();
    let mut graph: DiGraph<(), ()> = DiGraph::new();
    let nodes: Vec<NodeIndex> = stuck.iter().map(|_| graph.add_node(())).collect();
    for (from, to) in nodes.iter().zip(&waits) {
        if let Some(to) = to.and_then(|to| nodes.get(to)) {
            graph.add_edge(*from, *to, ());
        }
    }
    let waits_for_itself = |node: &NodeIndex| graph.contains_edge(*node, *node);
    let is_cycle = |component: &Vec<NodeIndex>| component.len() > 1 || component.iter().any(waits_for_itself);
    let components = tarjan_scc(&graph).into_iter().filter(is_cycle);
    let first = components
        .filter_map(|nodes| Some((nodes.iter().min()?.index(), nodes.len())))
        .min();
    let Some((first, length)) = first else {
        return stuck;
    };
    let chain = std::iter::successors(Some(first), |place| waits.get(*place).copied().flatten());
    chain
        .take(length)
        .filter_map(|place| stuck.get(place).cloned())
        .collect()
}
