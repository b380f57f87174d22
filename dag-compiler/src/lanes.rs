//! Which lanes a graph runs on: as the actors were spawned, or merged ([`Lanes::Auto`]).
//!
//! A hop within a lane is a call; a hop between lanes moves a cache line and, where threads outnumber cores, wakes
//! somebody. So lanes of one process are merged
//! - while there are more of them than cores beside the one of the thread that executes the graph, and
//! - where the durations of their work are known, while working side by side saves less than a hop costs.
//!
//! Neighbours along the graph are merged, so that hops vanish, and groups are of about equal work. Lanes that keep to different
//! cores are left apart. A pure function.

use std::collections::BTreeMap;

use selvedge_core::{LaneId, ProcessId};

use crate::cost;
use crate::ir::{ChannelKind, GraphIr, Lanes, Settings};

/// A lane, or lanes to be merged.
struct Group {
    lanes: Vec<LaneId>,
    ns: u64,
    /// Whether all of its work was measured or declared.
    known: bool,
    /// Why it is more than one lane.
    why: String,
    /// The core that it keeps to, which is not changed by merging.
    core: Option<u32>,
}

impl Group {
    fn absorb(&mut self, other: Group, why: &str) {
        self.lanes.extend(other.lanes);
        self.ns = self.ns.saturating_add(other.ns);
        self.known &= other.known;
        why.clone_into(&mut self.why);
    }

    /// The lane that stays.
    fn lane(&self) -> Option<LaneId> {
        self.lanes.iter().min().copied()
    }

    fn note(&self) -> Option<String> {
        let keep = self.lane()?;
        let mut gone: Vec<u32> = self
            .lanes
            .iter()
            .map(|lane| lane.0)
            .filter(|it| *it != keep.0)
            .collect();
        gone.sort_unstable();
        let gone: Vec<String> = gone.iter().map(u32::to_string).collect();
        let why = &self.why;
        (!gone.is_empty()).then(|| {
            format!(
                "lane {} does the work of lane {} too: {why}",
                keep.0,
                gone.join(", ")
            )
        })
    }
}

/// Moves actors to the lanes they share; says what was done, and why.
pub(crate) fn assign(graph: &mut GraphIr, settings: &Settings) -> Vec<String> {
    if settings.lanes == Lanes::Spawned {
        return Vec::new();
    }
    let groups = groups(graph);
    let lanes: usize = groups.values().map(Vec::len).sum();
    let cores = (settings.cores as usize).saturating_sub(1).max(1);
    let budgets = budgets(&groups, cores);
    let crowded = format!(
        "{lanes} lanes on {cores} of {} cores, one being the driver's",
        settings.cores
    );
    let mut merged: Vec<Group> = Vec::new();
    for (process, groups) in groups {
        let budget = budgets.get(&process).copied().unwrap_or(1);
        merged.extend(worthwhile(balanced(groups, budget, &crowded)));
    }
    let mut target: BTreeMap<LaneId, LaneId> = BTreeMap::new();
    for group in &merged {
        target.extend(group.lanes.iter().filter_map(|lane| Some((*lane, group.lane()?))));
    }
    for actor in &mut graph.actors {
        if let Some(lane) = target.get(&actor.lane) {
            actor.lane = *lane;
        }
    }
    merged.iter().filter_map(Group::note).collect()
}

/// The lanes of each process but the driver's own, in the order in which the graph first comes to them.
fn groups(graph: &GraphIr) -> BTreeMap<ProcessId, Vec<Group>> {
    let places = graph.places();
    let mut order: Vec<(ProcessId, LaneId)> = Vec::new();
    let mut work: BTreeMap<LaneId, (u64, bool)> = BTreeMap::new();
    for task in &graph.tasks {
        let Some((process, lane)) = places.get(&task.actor).copied() else {
            continue;
        };
        if lane == LaneId::DRIVER {
            continue;
        }
        let (ns, known) = work.entry(lane).or_insert_with(|| {
            order.push((process, lane));
            (0, true)
        });
        *ns = ns.saturating_add(cost::work_ns(task));
        *known &= task.duration_ns.is_some();
    }
    let mut groups: BTreeMap<ProcessId, Vec<Group>> = BTreeMap::new();
    for (process, lane) in order {
        let (ns, known) = work.get(&lane).copied().unwrap_or_default();
        let lanes = vec![lane];
        let why = String::new();
        groups.entry(process).or_default().push(Group {
            lanes,
            ns,
            known,
            why,
            core: graph.core_of(lane),
        });
    }
    groups
}

/// How many lanes each process may have: one each, and the rest where the most work is for each lane.
fn budgets(groups: &BTreeMap<ProcessId, Vec<Group>>, cores: usize) -> BTreeMap<ProcessId, usize> {
    let mut budgets: BTreeMap<ProcessId, usize> = groups.keys().map(|process| (*process, 1)).collect();
    for _ in budgets.len()..cores {
        let hungry = |(process, budget): (&ProcessId, &usize)| {
            let mine = groups.get(process).map(Vec::as_slice).unwrap_or_default();
            let ns = mine.iter().fold(0u64, |sum, group| sum.saturating_add(group.ns));
            (mine.len() > *budget).then_some((ns / *budget as u64, *process))
        };
        let next = budgets.iter().filter_map(hungry).max();
        let budget = next.and_then(|(_, process)| budgets.get_mut(&process));
        let Some(budget) = budget else { break };
        *budget += 1;
    }
    budgets
}

/// Neighbours merged into at most `budget` groups of about equal work: each lane goes to the group in whose share of all
/// work the middle of its own lies.
fn balanced(groups: Vec<Group>, budget: usize, why: &str) -> Vec<Group> {
    if groups.len() <= budget {
        return groups;
    }
    let total = groups
        .iter()
        .map(|group| u128::from(group.ns))
        .sum::<u128>()
        .max(1);
    let mut merged: Vec<Group> = Vec::with_capacity(budget);
    let (mut before, mut last) = (0u128, usize::MAX);
    for group in groups {
        let middle = before + u128::from(group.ns / 2);
        let share = ((middle * budget as u128 / total) as usize).min(budget - 1);
        before += u128::from(group.ns);
        match merged.last_mut() {
            Some(open) if share == last && open.core == group.core => open.absorb(group, why),
            _ => merged.push(group),
        }
        last = share;
    }
    merged
}

/// Neighbours merged whose work, one after the other, is not longer than the longest group's, or longer by less than the
/// hop that goes away. Only where durations are known.
fn worthwhile(groups: Vec<Group>) -> Vec<Group> {
    let slowest = groups.iter().map(|group| group.ns).max().unwrap_or_default();
    let limit = slowest.max(cost::hop_ns(ChannelKind::Ring));
    let why = "measured, its work and theirs in turn is no longer than the slowest lane's or a hop";
    let mut merged: Vec<Group> = Vec::new();
    for group in groups {
        let fits = |open: &Group| {
            let known = open.known && group.known && open.core == group.core;
            known && open.ns.saturating_add(group.ns) <= limit
        };
        match merged.last_mut() {
            Some(open) if fits(open) => open.absorb(group, why),
            _ => merged.push(group),
        }
    }
    merged
}
