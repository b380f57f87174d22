//! Ranks: from the plan of a collective to a lane's rank in its group.

use selvedge_channels::{Doorbell, Provider};
use selvedge_collectives::hosts::{HostPlaces, HostsRank};
use selvedge_collectives::{Communicator, Group, Joining};

use super::{LoadError, LoadSite};
use crate::bind::collective::{find_adapter, join};
use crate::ir::{CommunicatorPlan, GraphIr, RankPlan, TaskIr};
use crate::run::ranks::{CollectiveRun, Part, RankRun};
use crate::run::table::{RankIx, Table};
use selvedge_core::IdMap;

/// The ranks of one lane, by group and number.
#[derive(Default)]
pub(super) struct LaneRanks {
    pub(super) runs: Table<RankIx, RankRun>,
    known: IdMap<(usize, usize), RankIx>,
}

impl LoadSite<'_> {
    /// The groups of ranks on this host, by number, as this process sees them.
    pub(super) fn groups(&self) -> Result<IdMap<usize, Group>, LoadError> {
        let mut groups = IdMap::new();
        for (number, communicator) in self.plan.communicators.iter().enumerate() {
            let Some(span) = self.layout.communicators.get(&number) else {
                continue;
            };
            let here = self.ranks_here(communicator);
            let across = here.iter().any(|rank| rank.address.process != self.process);
            let provider = if across { Provider::Memfd } else { Provider::Heap };
            let bells = self.rank_bells(&here)?;
            groups.insert(number, Group::at(self.region(span)?, bells, provider, false)?);
        }
        Ok(groups)
    }

    /// The ranks of a group that are on this host.
    fn ranks_here(&self, communicator: &CommunicatorPlan) -> Vec<RankPlan> {
        let here = communicator.ranks_on(self.layout.host).into_iter();
        here.filter_map(|rank| communicator.ranks.get(rank).copied())
            .collect()
    }

    /// The doorbells that wake the ranks: for each rank, the bell of its lane.
    fn rank_bells(&self, ranks: &[RankPlan]) -> Result<Vec<Doorbell>, LoadError> {
        ranks.iter().map(|rank| self.bell(rank.address.lane)).collect()
    }

    /// Joins group number `group` as rank `own`.
    fn join(
        &self,
        group: usize,
        own: usize,
        groups: &IdMap<usize, Group>,
    ) -> Result<Box<dyn Communicator>, LoadError> {
        let unbound = LoadError::Inconsistent("a collective without a communicator");
        let communicator = self.plan.communicators.get(group);
        let (Some(known), Some(communicator)) = (groups.get(&group), communicator) else {
            return Err(unbound);
        };
        if communicator.is_over_hosts() {
            return self.join_over_hosts(group, own, known, communicator);
        }
        let bells = self.rank_bells(&communicator.ranks)?;
        let in_process = communicator
            .ranks
            .iter()
            .all(|rank| rank.address.process == self.process);
        let key = self.control.key().wrapping_add(group as u64);
        let joining = Joining::new(key, own, &bells, in_process).over(known);
        Ok(join(self.plan.settings.communicator.as_deref(), known, &joining)?)
    }

    /// Joins a group over several hosts, of which `known` has the ranks on this one.
    fn join_over_hosts(
        &self,
        group: usize,
        own: usize,
        known: &Group,
        communicator: &CommunicatorPlan,
    ) -> Result<Box<dyn Communicator>, LoadError> {
        let hosts: Vec<_> = communicator.ranks.iter().map(|rank| rank.address.host).collect();
        let here = communicator.ranks_on(self.layout.host);
        let local = here.iter().position(|rank| *rank == own);
        let local = local.ok_or(LoadError::Inconsistent("a rank of another host"))?;
        let exchange = match local {
            0 => {
                let exchange = self.shares.exchange(group);
                Some(exchange.ok_or(LoadError::Inconsistent("a leader without a joint"))?)
            }
            _ => None,
        };
        let rank = HostsRank::new(own, HostPlaces::of(&hosts), known.rank(local)?, exchange)?;
        Ok(Box::new(rank))
    }

    /// The part of a task in a collective, or `None` if the task has a method. The rank of the lane is made when it is
    /// first used.
    pub(super) fn collective(
        &self,
        task: &TaskIr,
        groups: &IdMap<usize, Group>,
        ranks: &mut LaneRanks,
    ) -> Result<Option<CollectiveRun>, LoadError> {
        let Some(id) = task.collective else {
            return Ok(None);
        };
        let unbound = LoadError::Inconsistent("a collective without a communicator");
        let Some(collective) = self.plan.ir.collective(id) else {
            return Err(unbound);
        };
        let actors = self.plan.ir.ranks(collective);
        let same = |group: &CommunicatorPlan| {
            group
                .ranks
                .iter()
                .map(|rank| rank.actor)
                .eq(actors.iter().copied())
        };
        let group = self.plan.communicators.iter().position(same);
        let own = actors.iter().position(|actor| *actor == task.actor);
        let (Some(group), Some(own)) = (group, own) else {
            return Err(unbound);
        };
        let rank = match ranks.known.get(&(group, own)) {
            Some(rank) => *rank,
            None => {
                let rank = ranks.runs.push(RankRun::new(self.join(group, own, groups)?));
                ranks.known.insert((group, own), rank);
                rank
            }
        };
        let run = ranks
            .runs
            .get_mut(rank)
            .ok_or(LoadError::Inconsistent("a rank that was not taken"))?;
        let plan = run.communicator.plan(collective.operation)?;
        let brought = GraphIr::reads(task)
            .next()
            .ok_or(LoadError::Inconsistent("a rank that brings nothing"))?;
        let payload = self.payload(brought.1)?;
        let adapter = find_adapter(payload).ok_or_else(|| LoadError::UnknownType(payload.name()))?;
        Ok(Some(CollectiveRun {
            rank,
            plan,
            operation: collective.operation,
            adapter,
            part: Part::Over,
        }))
    }
}
