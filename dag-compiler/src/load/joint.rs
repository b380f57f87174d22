//! The joint of a process: the ends of the shuttles that it has.

use std::sync::Arc;

use selvedge_channels::{Berth, Bypass, Segment, SharedReader, SharedWriter};
use selvedge_core::{Correspondence, IdMap, ProcessId, Runtime};

use super::{LoadError, LoadSite};
use crate::ir::{ChannelId, ChannelPlan, Plan, ShuttlePlan};
use crate::run::control::Control;
use crate::run::hosts::{Incoming, Joint, JointBerth, JointParts, Outgoing, Shares, Told};
use crate::run::layout::shared_spec;

/// The ends of the shuttles of one process, and the shares of its collectives.
pub(crate) struct ShuttleEnds {
    outgoing: Vec<Outgoing>,
    incoming: IdMap<ChannelId, Incoming>,
    shares: Arc<Shares>,
    berth: Option<Arc<JointBerth>>,
}

/// Has the waiters of this process sleep in berths, if the graph has several hosts and no other process on this one. Returns
/// the berth of the joint.
pub(crate) fn set_berths(
    control: &mut Control,
    plan: &Plan,
    process: ProcessId,
    runtime: &Runtime,
) -> Option<Arc<JointBerth>> {
    if !plan.is_alone_on_host(process) || control.joint_bell(process).is_none() {
        return None;
    }
    let joint = Arc::<JointBerth>::default();
    let waiting = plan.settings.waiting;
    control.set_berths(|| runtime.berth(waiting), &(Arc::clone(&joint) as Arc<dyn Berth>));
    Some(joint)
}

/// The bypass of each channel that a shuttle of this process alone reads.
pub(crate) type Bypasses = IdMap<ChannelId, Bypass>;

pub(crate) fn bypasses(plan: &Plan, process: ProcessId) -> Bypasses {
    let channels = plan.channels.iter().filter(|channel| {
        channel.mirrors == 1 && channel.readers.is_empty() && channel.writer.address().process == process
    });
    channels.map(|channel| (channel.id, Bypass::default())).collect()
}

impl LoadSite<'_> {
    /// The ends of this process's shuttles.
    pub(crate) fn shuttle_ends(&self) -> Result<ShuttleEnds, LoadError> {
        let mut ends = ShuttleEnds {
            outgoing: Vec::new(),
            incoming: IdMap::new(),
            shares: Arc::clone(self.shares),
            berth: self.berth.clone(),
        };
        for shuttle in self.plan.shuttles() {
            if shuttle.from == self.process {
                ends.outgoing.push(self.outgoing(shuttle)?);
            }
            if shuttle.to == self.process {
                ends.incoming.insert(shuttle.mirror, self.incoming(&shuttle)?);
            }
        }
        Ok(ends)
    }

    fn channel(&self, channel: ChannelId) -> Result<&ChannelPlan, LoadError> {
        let channel = self.plan.channels.get(channel.0 as usize);
        channel.ok_or(LoadError::Inconsistent("a shuttle without a channel"))
    }

    fn outgoing(&self, shuttle: ShuttlePlan) -> Result<Outgoing, LoadError> {
        let source = self.channel(shuttle.source)?;
        let (region, bell) = (self.shared_region(source.id)?, self.writer_bell(source)?);
        let reader = SharedReader::attach(region, &shared_spec(source), shuttle.reader, bell)?;
        let told = match self.berth {
            Some(berth) => Told::Berth(Arc::clone(berth)),
            None => Told::Bell(self.joint_bell(Some(self.process))?),
        };
        let bypass = self.bypasses.get(&source.id).cloned();
        Ok(Outgoing::new(shuttle, reader, source.slots, told, bypass))
    }

    fn incoming(&self, shuttle: &ShuttlePlan) -> Result<Incoming, LoadError> {
        let mirror = self.channel(shuttle.mirror)?;
        let region = self.shared_region(mirror.id)?;
        let readers = self.reader_bells(mirror)?;
        let writer = SharedWriter::attach(region, &shared_spec(mirror), readers)?;
        Ok(Incoming::new(shuttle, writer))
    }

    /// Joins this process to the other hosts of the graph, and tells the driver what memory it has made.
    pub(super) fn join_hosts(
        &self,
        correspondence: Correspondence,
        memory: Option<Segment>,
    ) -> Result<(), LoadError> {
        let made = memory.as_ref().and_then(Segment::id);
        let ends = self.shuttle_ends()?;
        let joint = joint(
            self.plan,
            self.process,
            self.control,
            correspondence,
            ends,
            memory,
        )?;
        if let Some(made) = made {
            joint.show_memory(made);
        }
        Ok(())
    }
}

/// Makes the joint of a process and starts its thread.
pub(crate) fn joint(
    plan: &Plan,
    process: ProcessId,
    control: &Control,
    correspondence: Correspondence,
    ends: ShuttleEnds,
    memory: Option<Segment>,
) -> Result<Arc<Joint>, LoadError> {
    let bell = control.joint_bell(process).cloned();
    let parts = JointParts {
        process,
        correspondence,
        control: control.clone(),
        bell: bell.ok_or(LoadError::Inconsistent("a process without a joint"))?,
        incoming: ends.incoming,
        outgoing: ends.outgoing,
        shares: ends.shares,
        berth: ends.berth,
        memory,
    };
    let joint = Joint::new(plan, parts);
    joint.start(plan.settings.waiting).map_err(LoadError::NoThread)?;
    Ok(joint)
}
