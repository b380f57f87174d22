//! Throughput: the number of executions per second that a plan can reach, and its bottleneck.
//!
//! In a marked graph with durations, the period of an execution is the maximum over all circuits of (sum of durations)
//! / (tokens): the *maximum cycle ratio*. Howard's policy iteration (Cochet-Terrasson, Cohen, Gaubert, McGettrick,
//! Quadrat 1998) finds it, in practice in a few passes over the edges. Durations are those of
//! [`TaskIr::duration_ns`](crate::ir::TaskIr::duration_ns); a hop is assumed to cost a fraction of a microsecond.

use super::marked_graph::{MarkedGraph, Why};
use crate::ir::{ChannelKind, Operation, Plan, Writer};

/// The number of passes after which the best result so far is taken; a handful is usual.
const PASSES_MAX: usize = 1_000;

/// Differences below this, in nanoseconds, count as rounding.
const EPSILON_NS: f64 = 1e-3;

/// The throughput that a plan can reach.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ThroughputBound {
    /// The time from one execution to the next with many in flight, in nanoseconds: no schedule of these lanes is
    /// faster.
    pub period_ns: f64,
    /// The circuit with this period: the steps that do work, each with the party that takes it.
    pub bottleneck: Vec<(Writer, Operation)>,
    /// The number of executions that are in the circuit at once: 1 for the work of a lane, the number of slots for a
    /// channel, or the limit of unfinished executions.
    pub tokens: u32,
}

impl ThroughputBound {
    /// The number of executions per second.
    pub fn per_second(&self) -> f64 {
        1e9 / self.period_ns
    }

    /// The bound in words, beside the duration of an execution that runs alone.
    pub(crate) fn describe(&self, plan: &Plan, makespan_us: f64) -> String {
        let steps: Vec<&str> = self
            .bottleneck
            .iter()
            .map(|(_, operation)| plan.ir.label(operation.task))
            .collect();
        let steps = if steps.is_empty() {
            "the hops".to_owned()
        } else {
            steps.join(" · ")
        };
        let (period, tokens) = (self.period_ns / 1e3, self.tokens);
        if !plan.ir.is_measured() {
            return format!(
                "durations are not measured; if all tasks last as long: {steps}, around {tokens} at a time"
            );
        }
        format!(
            "one execution alone {makespan_us:.1} us, many one every {period:.1} us: {steps}, around {tokens} at a time"
        )
    }
}

/// The bound of a live plan; `None` for a plan that is not well-formed.
pub fn bound(plan: &Plan) -> Option<ThroughputBound> {
    super::form::check(plan).ok()?;
    Ratio::of(plan, &MarkedGraph::of(plan)?, plan.settings.slots).solve()
}

/// The smallest number of slots with which a live plan reaches, within a thousandth, the throughput that it has with
/// `max_inflight` slots.
pub fn smallest_slots(plan: &Plan) -> u32 {
    let most = plan.settings.max_inflight.max(1);
    let graph = MarkedGraph::of(plan);
    let period = |slots: u32| {
        let bound = Ratio::of(plan, graph.as_ref()?, slots).solve();
        bound.map(|bound| bound.period_ns)
    };
    let Some(best) = period(most) else { return most };
    let (mut least, mut enough) = (1, most);
    while least < enough {
        let middle = least + (enough - least) / 2;
        if period(middle).is_some_and(|found| found <= best * 1.001) {
            enough = middle;
        } else {
            least = middle + 1;
        }
    }
    enough
}

struct Arc {
    to: u32,
    ns: f64,
    tokens: f64,
}

/// The events as small numbers, with the arcs from each.
struct Ratio<'a> {
    events: &'a MarkedGraph,
    /// By number: the node that stands for the event.
    nodes: Vec<u32>,
    arcs: Vec<Vec<Arc>>,
}

impl<'a> Ratio<'a> {
    fn of(plan: &Plan, events: &'a MarkedGraph, slots: u32) -> Self {
        let mut numbers = vec![u32::MAX; events.nodes.len()];
        let mut nodes = Vec::new();
        for node in events.events() {
            if let Some(number) = numbers.get_mut(node as usize) {
                *number = nodes.len() as u32;
                nodes.push(node);
            }
        }
        let durations = events.durations_ns(plan);
        let mut arcs: Vec<Vec<Arc>> = (0..nodes.len()).map(|_| Vec::new()).collect();
        for edge in &events.edges {
            let number = |node| {
                numbers
                    .get(events.event_of(node) as usize)
                    .copied()
                    .unwrap_or_default()
            };
            let (from, to) = (number(edge.from), number(edge.to));
            let tokens = match edge.why {
                Why::Slot(value, kind) if kind != ChannelKind::Local => plan.ir.slots_of(value, slots),
                _ => edge.tokens,
            };
            if from == to && tokens == 0 {
                continue;
            }
            let work = durations.get(events.event_of(edge.from) as usize);
            let ns = work.copied().unwrap_or_default() as f64 + edge.why.hop_ns() as f64;
            if let Some(arcs) = arcs.get_mut(from as usize) {
                arcs.push(Arc {
                    to,
                    ns,
                    tokens: f64::from(tokens),
                });
            }
        }
        Ratio { events, nodes, arcs }
    }

    fn arc(&self, from: usize, policy: &[u32]) -> Option<&Arc> {
        self.arcs.get(from)?.get(*policy.get(from)? as usize)
    }

    fn solve(&self) -> Option<ThroughputBound> {
        let count = self.nodes.len();
        let mut policy = vec![0u32; count];
        let mut found = self.evaluate(&policy)?;
        for _ in 0..PASSES_MAX {
            let mut changed = false;
            for (from, arcs) in self.arcs.iter().enumerate() {
                for (choice, arc) in (0u32..).zip(arcs) {
                    let to = arc.to as usize;
                    let (here, there) = (*found.ratio.get(from)?, *found.ratio.get(to)?);
                    let better = there > here + EPSILON_NS || {
                        let gain =
                            arc.ns - here * arc.tokens + found.value.get(to)? - found.value.get(from)?;
                        there >= here - EPSILON_NS && gain > EPSILON_NS * (1.0 + here.abs() * 1e-6)
                    };
                    if better {
                        *policy.get_mut(from)? = choice;
                        *found.ratio.get_mut(from)? = there;
                        *found.value.get_mut(from)? = arc.ns - there * arc.tokens + found.value.get(to)?;
                        changed = true;
                    }
                }
            }
            if !changed {
                break;
            }
            found = self.evaluate(&policy)?;
        }
        self.bound(&policy, &found)
    }

    /// The ratio of every node (that of the circuit to which its policy leads) and its value (its distance from that
    /// circuit).
    fn evaluate(&self, policy: &[u32]) -> Option<Evaluated> {
        const NEW: u32 = u32::MAX;
        let count = self.nodes.len();
        let mut found = Evaluated {
            ratio: vec![0.0; count],
            value: vec![0.0; count],
            circuit: 0,
        };
        let mut seen = vec![NEW; count];
        let mut done = vec![false; count];
        let mut best = f64::NEG_INFINITY;
        let mut path = Vec::new();
        for begin in 0..count {
            path.clear();
            let mut at = begin;
            while !*done.get(at)? && *seen.get(at)? != begin as u32 {
                *seen.get_mut(at)? = begin as u32;
                path.push(at);
                at = self.arc(at, policy)?.to as usize;
            }
            if !*done.get(at)? {
                let ratio = self.ratio_of(at, policy)?;
                *found.ratio.get_mut(at)? = ratio;
                *found.value.get_mut(at)? = 0.0;
                *done.get_mut(at)? = true;
                if ratio > best {
                    (best, found.circuit) = (ratio, at);
                }
            }
            for node in path.iter().rev().copied() {
                if *done.get(node)? {
                    continue;
                }
                let arc = self.arc(node, policy)?;
                let ratio = *found.ratio.get(arc.to as usize)?;
                *found.ratio.get_mut(node)? = ratio;
                *found.value.get_mut(node)? =
                    arc.ns - ratio * arc.tokens + found.value.get(arc.to as usize)?;
                *done.get_mut(node)? = true;
            }
        }
        Some(found)
    }

    /// The ratio of the circuit on which a node lies.
    fn ratio_of(&self, begin: usize, policy: &[u32]) -> Option<f64> {
        let (mut ns, mut tokens, mut node) = (0.0, 0.0, begin);
        loop {
            let arc = self.arc(node, policy)?;
            (ns, tokens) = (ns + arc.ns, tokens + arc.tokens);
            node = arc.to as usize;
            if node == begin {
                return Some(if tokens > 0.0 { ns / tokens } else { f64::INFINITY });
            }
        }
    }

    fn bound(&self, policy: &[u32], found: &Evaluated) -> Option<ThroughputBound> {
        let mut bottleneck = Vec::new();
        let (mut node, mut tokens) = (found.circuit, 0.0);
        loop {
            let what = self.events.node(*self.nodes.get(node)?)?;
            bottleneck.extend(
                what.operation
                    .filter(|it| it.kind.is_work())
                    .map(|it| (what.party, it)),
            );
            let arc = self.arc(node, policy)?;
            tokens += arc.tokens;
            node = arc.to as usize;
            if node == found.circuit {
                break;
            }
        }
        Some(ThroughputBound {
            period_ns: *found.ratio.get(found.circuit)?,
            bottleneck,
            tokens: tokens as u32,
        })
    }
}

struct Evaluated {
    ratio: Vec<f64>,
    value: Vec<f64>,
    /// A node of the circuit with the largest ratio.
    circuit: usize,
}
