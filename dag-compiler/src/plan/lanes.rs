//! The choice of a graph's lanes: the lanes of the spawned actors, or merged lanes ([`Lanes::Auto`]).
//!
//! A hop within a lane is a call. A hop between lanes moves a cache line and, if threads outnumber cores, wakes a
//! thread. So lanes of one process are merged
//! - while there are more lanes than cores, not counting the core of the thread that executes the graph, and
//! - while the merged work takes no longer than the slowest lane's work or one hop, if the durations of the work are
//!   known.
//!
//! Only neighbours along the graph are merged, so that hops disappear, and the groups have about equal work. Lanes with
//! different cores stay apart, as does a lane with an actor that must stay there. The choice is a pure function.

use selvedge_core::{Address, IdMap, LaneId, ProcessId};

use crate::ir::{ChannelKind, GraphIr, Lanes, Settings};
use crate::plan::cost;

/// One lane, or several lanes that are to be merged.
struct LaneGroup {
    lanes: Vec<LaneId>,
    ns: u64,
    /// True if all of the group's work was measured or declared.
    known: bool,
    /// The reason for the merge; empty for a single lane.
    why: String,
    /// The core to which the lanes are pinned. Only lanes with the same core are merged.
    core: Option<u32>,
    /// True if an actor must stay on its lane. Such a lane is merged with no other.
    pinned: bool,
}

impl LaneGroup {
    /// Whether the lanes of both groups may become one.
    fn may_absorb(&self, other: &LaneGroup) -> bool {
        self.core == other.core && !self.pinned && !other.pinned
    }

    fn absorb(&mut self, other: LaneGroup, why: &str) {
        self.lanes.extend(other.lanes);
        self.ns = self.ns.saturating_add(other.ns);
        self.known &= other.known;
        why.clone_into(&mut self.why);
    }

    /// Returns the lane that remains after the merge.
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

/// Moves actors to their merged lanes. Returns one note for each merge, with its reason.
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
    let mut merged: Vec<LaneGroup> = Vec::new();
    for (process, groups) in groups {
        let budget = budgets.get(&process).copied().unwrap_or(1);
        merged.extend(worthwhile(balanced(groups, budget, &crowded)));
    }
    let mut target: IdMap<LaneId, LaneId> = IdMap::new();
    for group in &merged {
        target.extend(group.lanes.iter().filter_map(|lane| Some((*lane, group.lane()?))));
    }
    for actor in &mut graph.actors {
        if let Some(lane) = target.get(&actor.lane) {
            actor.lane = *lane;
        }
    }
    merged.iter().filter_map(LaneGroup::note).collect()
}

/// Returns the lanes of each process, except the driver's lane, in the order in which the graph first uses them.
fn groups(graph: &GraphIr) -> IdMap<ProcessId, Vec<LaneGroup>> {
    let places = graph.places();
    let mut order: Vec<Address> = Vec::new();
    let mut work: IdMap<LaneId, (u64, bool)> = IdMap::new();
    for task in &graph.tasks {
        let Some(place) = places.get(&task.actor).copied() else {
            continue;
        };
        if place == Address::DRIVER {
            continue;
        }
        let before = work.get(&place.lane).copied();
        let (ns, known) = before.unwrap_or_else(|| {
            order.push(place);
            (0, true)
        });
        let ns = ns.saturating_add(cost::work_ns(task));
        work.insert(place.lane, (ns, known && task.duration_ns.is_some()));
    }
    let mut groups: IdMap<ProcessId, Vec<LaneGroup>> = IdMap::new();
    for Address { process, lane, .. } in order {
        let (ns, known) = work.get(&lane).copied().unwrap_or_default();
        let lanes = vec![lane];
        let why = String::new();
        let group = LaneGroup {
            lanes,
            ns,
            known,
            why,
            core: graph.core_of(lane),
            pinned: graph.is_pinned(lane),
        };
        groups.push_to(process, group);
    }
    groups
}

/// Returns the number of lanes that each process may have. Each process gets one; each further lane goes to the process
/// with the most work per lane.
fn budgets(groups: &IdMap<ProcessId, Vec<LaneGroup>>, cores: usize) -> IdMap<ProcessId, usize> {
    let mut budgets: IdMap<ProcessId, usize> = groups.keys().map(|process| (*process, 1)).collect();
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

/// Merges neighbours into at most `budget` groups of about equal work. The total work is divided into `budget` equal
/// shares; each lane joins the group of the share that contains the middle of its own work. Neighbours with different
/// cores, and lanes with an actor that must stay there, stay apart, which may leave more groups.
fn balanced(groups: Vec<LaneGroup>, budget: usize, why: &str) -> Vec<LaneGroup> {
    if groups.len() <= budget {
        return groups;
    }
    let total = groups
        .iter()
        .map(|group| u128::from(group.ns))
        .sum::<u128>()
        .max(1);
    let mut merged: Vec<LaneGroup> = Vec::with_capacity(budget);
    let (mut before, mut last) = (0u128, usize::MAX);
    for group in groups {
        let middle = before + u128::from(group.ns / 2);
        let share = ((middle * budget as u128 / total) as usize).min(budget - 1);
        before += u128::from(group.ns);
        match merged.last_mut() {
            Some(open) if share == last && open.may_absorb(&group) => open.absorb(group, why),
            _ => merged.push(group),
        }
        last = share;
    }
    merged
}

/// Merges neighbours of known duration if their combined work is no longer than the longest group's work or than one
/// hop between threads.
fn worthwhile(groups: Vec<LaneGroup>) -> Vec<LaneGroup> {
    let slowest = groups.iter().map(|group| group.ns).max().unwrap_or_default();
    let limit = slowest.max(cost::hop_ns(ChannelKind::Ring));
    let why = "measured, its work and theirs in turn is no longer than the slowest lane's or a hop";
    let mut merged: Vec<LaneGroup> = Vec::new();
    for group in groups {
        let fits = |open: &LaneGroup| {
            let known = open.known && group.known && open.may_absorb(&group);
            known && open.ns.saturating_add(group.ns) <= limit
        };
        match merged.last_mut() {
            Some(open) if fits(open) => open.absorb(group, why),
            _ => merged.push(group),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(lane: u32, pinned: bool) -> LaneGroup {
        LaneGroup {
            lanes: vec![LaneId(lane)],
            ns: 1,
            known: true,
            why: String::new(),
            core: None,
            pinned,
        }
    }

    #[test]
    fn a_lane_whose_actor_must_stay_there_is_merged_with_no_other() {
        let groups = || (1..=5).map(|lane| group(lane, lane == 3)).collect();
        let lanes = |merged: Vec<LaneGroup>| -> Vec<Vec<u32>> {
            let numbers = |group: LaneGroup| group.lanes.iter().map(|lane| lane.0).collect();
            merged.into_iter().map(numbers).collect()
        };
        let apart = vec![vec![1, 2], vec![3], vec![4, 5]];
        assert_eq!(lanes(balanced(groups(), 1, "few cores")), apart);
        assert_eq!(lanes(worthwhile(groups())), apart);
    }
}
