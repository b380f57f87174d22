//! Liveness: a marked graph is live if the events have a topological order along the edges without a token. If not, the
//! deadlock is told as the lanes see it.

use std::collections::VecDeque;

use petgraph::Direction::Incoming;
use petgraph::algo::{kosaraju_scc, toposort};
use petgraph::graph::NodeIndex;
use petgraph::visit::{Dfs, VisitMap, Visitable};

use super::marked_graph::{MarkedEdge, MarkedGraph, Node, Waits, Why};
use super::{Blocked, Deadlock, Moment};
use crate::ir::ValueId;
use selvedge_core::IdSet;

/// A linear order of the steps in which no step waits for a later one, or the cycle that forbids such an order.
pub(super) fn linear(graph: &MarkedGraph) -> Result<Vec<Moment>, Deadlock> {
    let order = events_in_order(graph, &graph.waits())?;
    let count = graph.nodes.len();
    // The nodes of each event, as linked lists that begin at `heads`.
    let mut members = vec![u32::MAX; count];
    let mut heads = vec![u32::MAX; count];
    for node in (0..count as u32).rev() {
        let head = heads.get_mut(graph.event_of(node) as usize);
        if let (Some(head), Some(member)) = (head, members.get_mut(node as usize)) {
            *member = std::mem::replace(head, node);
        }
    }
    let mut moments = Vec::with_capacity(count);
    for event in order {
        let mut member = heads.get(event as usize).copied().unwrap_or(u32::MAX);
        while let Some(node) = graph.node(member) {
            moments.extend(moment(node, graph.is_step(member)));
            member = members.get(member as usize).copied().unwrap_or(u32::MAX);
        }
    }
    Ok(moments)
}

/// The events in such a linear order, each by the node that stands for it.
pub(super) fn events_in_order(graph: &MarkedGraph, waits: &Waits) -> Result<Vec<u32>, Deadlock> {
    match toposort(waits, None) {
        Ok(order) => {
            let nodes = order.into_iter().map(|node| node.index() as u32);
            Ok(nodes.filter(|node| graph.event_of(*node) == *node).collect())
        }
        Err(_) => Err(Stuck::of(graph, waits).cycle()),
    }
}

fn moment(node: &Node, step: bool) -> Option<Moment> {
    match (step, node.collective) {
        (true, _) => node.operation.map(Moment::Step),
        (false, collective) => collective.map(Moment::Completion),
    }
}

/// The state of a plan in which nothing moves any more.
struct Stuck<'a> {
    graph: &'a MarkedGraph,
    waits: &'a Waits,
    /// The events that never happen: those on a cycle, and those that wait for them.
    never: <Waits as Visitable>::Map,
}

impl<'a> Stuck<'a> {
    fn of(graph: &'a MarkedGraph, waits: &'a Waits) -> Self {
        let mut never = Dfs::empty(waits);
        let cycles = kosaraju_scc(waits).into_iter().filter(|events| events.len() > 1);
        for event in cycles.flatten() {
            never.move_to(event);
            while never.next(waits).is_some() {}
        }
        Stuck {
            graph,
            waits,
            never: never.discovered,
        }
    }

    fn is_done(&self, node: u32) -> bool {
        let event = NodeIndex::from(self.graph.event_of(node));
        !self.never.is_visited(&event)
    }

    /// The edges for which an event waits, in the order in which the graph lists them.
    fn arriving(&self, event: u32) -> impl Iterator<Item = &'a MarkedEdge> {
        let edges = self.waits.edges_directed(event.into(), Incoming);
        let edges: IdSet<u32> = edges.map(|edge| *edge.weight()).collect();
        edges.into_iter().filter_map(|edge| self.graph.edge(edge))
    }

    /// The step at which a lane stands: its first step that was not taken.
    fn at(&self, lane: usize) -> Option<u32> {
        let mut range = self.graph.lanes.get(lane)?.clone();
        range.find(|node| !self.is_done(*node))
    }

    fn lane_of(&self, node: u32) -> Option<usize> {
        self.graph.lanes.iter().position(|range| range.contains(&node))
    }

    /// Follows the waits, from any lane that is stuck, until a lane comes twice.
    fn cycle(&self) -> Deadlock {
        let mut path: Vec<(usize, Blocked)> = Vec::new();
        let mut lane = (0..self.graph.lanes.len()).find(|lane| self.at(*lane).is_some());
        while let Some(here) = lane {
            if let Some(begin) = path.iter().position(|(seen, _)| *seen == here) {
                path.drain(..begin);
                break;
            }
            let Some((other, blocked)) = self.blocked(here) else {
                break;
            };
            path.push((here, blocked));
            lane = Some(other);
        }
        Deadlock {
            cycle: path.into_iter().map(|(_, blocked)| blocked).collect(),
        }
    }

    /// The reason why a lane does not move, and the lane that would have to move. Follows events on no lane, and
    /// transfers that run in the order of a lane.
    fn blocked(&self, lane: usize) -> Option<(usize, Blocked)> {
        let node = self.at(lane)?;
        let Node { party, operation, .. } = *self.graph.node(node)?;
        let first = self.graph.event_of(node);
        let mut seen = IdSet::from_iter([first]);
        let mut next = VecDeque::from([(first, None)]);
        while let Some((event, about)) = next.pop_front() {
            for edge in self.arriving(event) {
                let own_step = edge.why == Why::Lane && edge.to == node;
                if own_step || self.is_done(edge.from) {
                    continue;
                }
                let value = about.or(self.value(edge, node));
                let other = match edge.why {
                    Why::Transfer(_, number) => (number != lane).then_some(number),
                    _ => self.lane_of(edge.from),
                };
                if let Some(other) = other {
                    let blocked = Blocked {
                        party,
                        operation,
                        value: value.unwrap_or(ValueId(u32::MAX)),
                        waits_for: self.graph.node(self.at(other)?)?.party,
                    };
                    return Some((other, blocked));
                }
                let from = self.graph.event_of(edge.from);
                if seen.insert(from) {
                    next.push_back((from, value));
                }
            }
        }
        None
    }

    /// The value for which `node` waits along an edge.
    fn value(&self, edge: &MarkedEdge, node: u32) -> Option<ValueId> {
        let of = |node| self.graph.node(node).and_then(|node| node.value);
        match edge.why {
            Why::Value(value, _) | Why::Party(value) | Why::Slot(value, _) | Why::Transfer(value, _) => {
                Some(value)
            }
            Why::Lane => of(node).or(of(edge.to)),
            Why::Window => None,
        }
    }
}
