//! The shares of collectives over several hosts: what the leaders of hosts send each other.
//!
//! A leader's lane leaves its share here and rings the joint, whose thread sends it: no lane waits for a socket. A share that
//! arrives waits here until the leader's lane, which is rung, takes it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use selvedge_channels::Doorbell;
use selvedge_collectives::CommError;
use selvedge_collectives::hosts::HostExchange;
use selvedge_core::{IdMap, ProcessId};

use crate::ir::{CommunicatorPlan, Plan};
use crate::run::control::Control;

/// The shares of a host that may wait: that of the operation at hand, and that of the next one.
const SHARES_MAX: usize = 2;

/// The leader of another host, and its shares that have arrived.
struct OtherLeader {
    process: ProcessId,
    arrived: VecDeque<Bytes>,
    /// The number of the share that is expected.
    next: u64,
}

/// The shares of one group, in the process of this host's leader.
struct GroupShares {
    /// The doorbell of the leader's lane.
    bell: Doorbell,
    /// The leaders of the other hosts, in the order of hosts.
    others: Mutex<Vec<OtherLeader>>,
    /// Shares that were posted and not sent, and the number of the next one.
    posted: Mutex<(VecDeque<Bytes>, u64)>,
}

/// A share to be sent: the group, the number, and the bytes, for each of the other leaders.
pub(super) struct OutgoingShare {
    pub(super) group: usize,
    pub(super) number: u64,
    pub(super) to: Vec<ProcessId>,
    pub(super) bytes: Bytes,
}

/// The shares of the groups of which a leader is in this process.
pub(crate) struct Shares {
    groups: IdMap<usize, Arc<GroupShares>>,
    /// The doorbell of the joint; none without groups.
    joint: Option<Doorbell>,
    is_posted: Arc<AtomicBool>,
}

impl GroupShares {
    fn of(group: &CommunicatorPlan, process: ProcessId, control: &Control) -> Option<Self> {
        let leaders = group.leaders();
        let own = leaders.iter().find(|leader| {
            leader.address.process == process && control.bell(leader.address.lane).is_some()
        })?;
        let others = leaders
            .iter()
            .filter(|other| other.address.host != own.address.host);
        let other = |leader: &crate::ir::RankPlan| OtherLeader {
            process: leader.address.process,
            arrived: VecDeque::new(),
            next: 0,
        };
        Some(GroupShares {
            bell: control.bell(own.address.lane)?.clone(),
            others: Mutex::new(others.map(other).collect()),
            posted: Mutex::default(),
        })
    }
}

impl Shares {
    /// The shares of a process.
    pub(crate) fn of(plan: &Plan, process: ProcessId, control: &Control) -> Arc<Self> {
        let over_hosts = plan.communicators.iter().enumerate();
        let over_hosts = over_hosts.filter(|(_, group)| group.is_over_hosts());
        let shares = |(number, group): (usize, &CommunicatorPlan)| {
            Some((number, Arc::new(GroupShares::of(group, process, control)?)))
        };
        Arc::new(Shares {
            groups: over_hosts.filter_map(shares).collect(),
            joint: control.joint_bell(process).cloned(),
            is_posted: Arc::default(),
        })
    }

    /// The way of the leader of a group to those of other hosts; `None` if no leader of the group is in this process.
    pub(crate) fn exchange(&self, group: usize) -> Option<Box<dyn HostExchange>> {
        Some(Box::new(JointExchange {
            shares: Arc::clone(self.groups.get(&group)?),
            joint: self.joint.clone()?,
            is_posted: Arc::clone(&self.is_posted),
        }))
    }

    /// Whether shares are to be sent.
    pub(super) fn has_posted(&self) -> bool {
        // Relaxed: whoever posts one rings afterwards.
        self.is_posted.load(Ordering::Relaxed)
    }

    /// Takes the shares that are to be sent.
    pub(super) fn posted(&self) -> Vec<OutgoingShare> {
        // AcqRel: a share that is posted after this sets the flag again.
        if !self.is_posted.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        let mut outgoing = Vec::new();
        for (group, shares) in &self.groups {
            let others = shares.others.lock();
            let to: Vec<ProcessId> = others.iter().map(|other| other.process).collect();
            drop(others);
            let mut posted = shares.posted.lock();
            while let Some(bytes) = posted.0.pop_front() {
                outgoing.push(OutgoingShare {
                    group: *group,
                    number: posted.1,
                    to: to.clone(),
                    bytes,
                });
                posted.1 += 1;
            }
        }
        outgoing
    }

    /// Takes a share that has arrived, and rings the leader.
    ///
    /// # Errors
    /// A text: an honest leader does not send it.
    pub(super) fn arrived(
        &self,
        from: ProcessId,
        group: usize,
        number: u64,
        share: Bytes,
    ) -> Result<(), String> {
        let shares = self.groups.get(&group);
        let shares =
            shares.ok_or_else(|| format!("{from} has sent a share of no collective of this process"))?;
        let mut others = shares.others.lock();
        let other = others.iter_mut().find(|other| other.process == from);
        let other =
            other.ok_or_else(|| format!("{from}, which is no leader, has sent a share of a collective"))?;
        if number != other.next || other.arrived.len() >= SHARES_MAX {
            return Err(format!(
                "share {number} of {from} came in the place of share {}",
                other.next
            ));
        }
        other.next += 1;
        other.arrived.push_back(share);
        drop(others);
        shares.bell.ring();
        Ok(())
    }
}

/// The way of one leader to the others, by the joint of its process.
struct JointExchange {
    shares: Arc<GroupShares>,
    joint: Doorbell,
    is_posted: Arc<AtomicBool>,
}

impl HostExchange for JointExchange {
    fn post(&mut self, share: Vec<u8>) -> Result<(), CommError> {
        self.shares.posted.lock().0.push_back(share.into());
        // Release: pairs with the swap in `posted`.
        self.is_posted.store(true, Ordering::Release);
        self.joint.ring();
        Ok(())
    }

    fn poll(&mut self) -> Result<Option<Vec<Vec<u8>>>, CommError> {
        let mut others = self.shares.others.lock();
        if others.iter().any(|other| other.arrived.is_empty()) {
            return Ok(None);
        }
        let shares = others.iter_mut().filter_map(|other| other.arrived.pop_front());
        Ok(Some(shares.map(Vec::from).collect()))
    }
}
