//! Liveness: checks a marked graph by Kahn's algorithm over the edges without a token.

use std::collections::{BTreeSet, VecDeque};

use super::events::{MarkedEdge, MarkedGraph, Node, Why};
use super::{Blocked, Deadlock, Moment};
use crate::ir::ValueId;

/// Edges without a token, by the event that they lead from, or to.
pub(super) struct Adjacent {
    starts: Vec<usize>,
    edges: Vec<u32>,
}

impl Adjacent {
    pub(super) fn by(events: &MarkedGraph, end: impl Fn(&MarkedEdge) -> u32) -> Self {
        let tokenless = || {
            let indices = (0u32..).zip(&events.edges);
            indices.filter(|(_, edge)| edge.tokens == 0)
        };
        let mut starts = vec![0usize; events.nodes.len() + 1];
        for (_, edge) in tokenless() {
            if let Some(count) = starts.get_mut(events.event_of(end(edge)) as usize + 1) {
                *count += 1;
            }
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        let mut edges = vec![0u32; sum];
        let mut next = starts.clone();
        for (index, edge) in tokenless() {
            if let Some(place) = next.get_mut(events.event_of(end(edge)) as usize)
                && let Some(slot) = edges.get_mut(*place)
            {
                *slot = index;
                *place += 1;
            }
        }
        Adjacent { starts, edges }
    }

    /// The edges of an event.
    pub(super) fn of<'e>(&self, events: &'e MarkedGraph, event: u32) -> impl Iterator<Item = &'e MarkedEdge> {
        let index = event as usize;
        let range = self.starts.get(index).zip(self.starts.get(index + 1));
        let edges = range.and_then(|(from, to)| self.edges.get(*from..*to));
        let edges = edges.unwrap_or_default().iter();
        edges.filter_map(|edge| events.edges.get(*edge as usize))
    }
}

/// A linear order of the steps in which no step waits for a later one, or the cycle that forbids such an order.
pub(super) fn linear(events: &MarkedGraph) -> Result<Vec<Moment>, Deadlock> {
    let order = events_in_order(events)?;
    let count = events.nodes.len();
    // The nodes of each event, as linked lists that begin at `heads`.
    let mut members = vec![u32::MAX; count];
    let mut heads = vec![u32::MAX; count];
    for node in (0..count as u32).rev() {
        let head = heads.get_mut(events.event_of(node) as usize);
        if let (Some(head), Some(member)) = (head, members.get_mut(node as usize)) {
            *member = std::mem::replace(head, node);
        }
    }
    let mut moments = Vec::with_capacity(count);
    for event in order {
        let mut member = heads.get(event as usize).copied().unwrap_or(u32::MAX);
        while let Some(node) = events.node(member) {
            moments.extend(moment(node, events.is_step(member)));
            member = members.get(member as usize).copied().unwrap_or(u32::MAX);
        }
    }
    Ok(moments)
}

/// The events in such a linear order, each by the node that stands for it.
pub(super) fn events_in_order(events: &MarkedGraph) -> Result<Vec<u32>, Deadlock> {
    let count = events.nodes.len();
    let mut waiting_for = vec![0u32; count];
    for edge in events.edges.iter().filter(|edge| edge.tokens == 0) {
        let (from, to) = (events.event_of(edge.from), events.event_of(edge.to));
        // Steps of one event do not wait for each other.
        if let Some(waits) = waiting_for.get_mut(to as usize).filter(|_| from != to) {
            *waits += 1;
        }
    }
    let leaving = Adjacent::by(events, |edge| edge.from);
    let stands = |node: &u32| events.event_of(*node) == *node;
    let begins = |node: &u32| stands(node) && waiting_for.get(*node as usize) == Some(&0);
    let mut free: Vec<u32> = (0..count as u32).filter(begins).rev().collect();
    let mut done = vec![false; count];
    let mut order = Vec::with_capacity(count);
    while let Some(event) = free.pop() {
        order.push(event);
        if let Some(done) = done.get_mut(event as usize) {
            *done = true;
        }
        for edge in leaving.of(events, event) {
            let to = events.event_of(edge.to);
            if let Some(waits) = waiting_for.get_mut(to as usize).filter(|_| to != event) {
                *waits -= 1;
                if *waits == 0 {
                    free.push(to);
                }
            }
        }
    }
    if order.len() == (0..count as u32).filter(stands).count() {
        return Ok(order);
    }
    let arriving = Adjacent::by(events, |edge| edge.to);
    Err(Stuck {
        events,
        done: &done,
        arriving,
    }
    .cycle())
}

fn moment(node: &Node, step: bool) -> Option<Moment> {
    match (step, node.collective) {
        (true, _) => node.operation.map(Moment::Step),
        (false, collective) => collective.map(Moment::Completion),
    }
}

/// The state of a plan in which nothing moves any more.
struct Stuck<'a> {
    events: &'a MarkedGraph,
    /// By event: whether it is done.
    done: &'a [bool],
    arriving: Adjacent,
}

impl Stuck<'_> {
    fn is_done(&self, node: u32) -> bool {
        self.done
            .get(self.events.event_of(node) as usize)
            .copied()
            .unwrap_or(true)
    }

    /// The step at which a lane stands: its first step that was not taken.
    fn at(&self, lane: usize) -> Option<u32> {
        let mut range = self.events.lanes.get(lane)?.clone();
        range.find(|node| !self.is_done(*node))
    }

    fn lane_of(&self, node: u32) -> Option<usize> {
        self.events.lanes.iter().position(|range| range.contains(&node))
    }

    /// Follows the waits, from any lane that is stuck, until a lane comes twice.
    fn cycle(&self) -> Deadlock {
        let mut path: Vec<(usize, Blocked)> = Vec::new();
        let mut lane = (0..self.events.lanes.len()).find(|lane| self.at(*lane).is_some());
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

    /// The reason why a lane does not move, and the lane that would have to move.
    fn blocked(&self, lane: usize) -> Option<(usize, Blocked)> {
        let node = self.at(lane)?;
        let Node { party, operation, .. } = *self.events.node(node)?;
        // Follows events on no lane, and transfers that run in the order of a lane, to the lane that would have to
        // move.
        let mut seen = BTreeSet::from([self.events.event_of(node)]);
        let mut next = VecDeque::from([(self.events.event_of(node), None)]);
        while let Some((event, about)) = next.pop_front() {
            for edge in self.arriving.of(self.events, event) {
                let own_step = edge.why == Why::Lane && edge.to == node;
                if own_step || self.is_done(edge.from) {
                    continue;
                }
                let value = match edge.why {
                    Why::Value(value, _)
                    | Why::Party(value)
                    | Why::Slot(value, _)
                    | Why::Transfer(value, _) => Some(value),
                    Why::Lane => self.events.node(node)?.value.or(self.events.node(edge.to)?.value),
                    Why::Window => None,
                };
                let value = about.or(value);
                let other = match edge.why {
                    Why::Transfer(_, number) => (number != lane).then_some(number),
                    _ => self.lane_of(edge.from),
                };
                if let Some(other) = other {
                    let waits_for = self.events.node(self.at(other)?)?.party;
                    let value = value.unwrap_or(ValueId(u32::MAX));
                    let blocked = Blocked {
                        party,
                        operation,
                        value,
                        waits_for,
                    };
                    return Some((other, blocked));
                }
                let from = self.events.event_of(edge.from);
                if seen.insert(from) {
                    next.push_back((from, value));
                }
            }
        }
        None
    }
}
