//! The parts of a plan that join several hosts: the processes that do so, and the shuttles between them.

use selvedge_core::{HostId, IdMap, IdSet, ProcessId};

use super::{ChannelId, ChannelKind, ChannelPlan, Plan, ValueId};

/// A shuttle: it reads a shared channel on the writer's host, as one more reader, and writes a mirror of the channel on
/// another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShuttlePlan {
    /// The mirror.
    pub mirror: ChannelId,
    /// The shared channel.
    pub source: ChannelId,
    /// The number of the shuttle among the readers of the shared channel.
    pub reader: u32,
    /// The process that reads: the writer's.
    pub from: ProcessId,
    /// The process that writes the mirror: the first of its readers'.
    pub to: ProcessId,
}

impl Plan {
    /// Returns the processes with lanes on each host, by host and process.
    pub fn processes(&self) -> Vec<(HostId, ProcessId)> {
        let places = self
            .lanes
            .iter()
            .map(|lane| (lane.address.host, lane.address.process));
        let mut places: Vec<_> = places.collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    /// Whether a process is the only one of the graph on its host. No joint's thread spins there.
    pub fn is_alone_on_host(&self, process: ProcessId) -> bool {
        let host = self.host_of(process);
        let processes = self.processes().into_iter();
        processes.filter(|(there, _)| Some(*there) == host).count() == 1
    }

    /// Returns the largest number of lanes, and of joints that spin, on one host: threads that may want a core at once.
    pub fn waiters_max(&self) -> usize {
        let mut hosts: Vec<HostId> = self.lanes.iter().map(|lane| lane.address.host).collect();
        let joints = self.joints().into_iter();
        let spinning = joints.filter(|(_, process)| !self.is_alone_on_host(*process));
        hosts.extend(spinning.map(|(host, _)| host));
        hosts.sort_unstable();
        let counts = hosts.chunk_by(|one, next| one == next).map(<[_]>::len);
        counts.max().unwrap_or_default()
    }

    /// Returns the host of a process; `None` if it has no lane.
    pub fn host_of(&self, process: ProcessId) -> Option<HostId> {
        let lane = self.lanes.iter().find(|lane| lane.address.process == process);
        lane.map(|lane| lane.address.host)
    }

    /// Returns the steward of a host: the process that makes the memory of the graph there, and tells the driver of
    /// failures. The driver is its own host's.
    pub fn steward(&self, host: HostId) -> ProcessId {
        let there = self.processes().into_iter().find(|(of, _)| *of == host);
        there.map_or(ProcessId::DRIVER, |(_, process)| process)
    }

    /// Returns the shuttles, in the order of their mirrors.
    pub fn shuttles(&self) -> Vec<ShuttlePlan> {
        let mut next: IdMap<ValueId, (ChannelId, u32)> = IdMap::new();
        for channel in self.channels.iter().filter(|channel| channel.mirrors > 0) {
            next.insert(channel.value, (channel.id, channel.readers.len() as u32));
        }
        let mut shuttle = |mirror: &ChannelPlan| {
            let (source, reader) = next.get_mut(&mirror.value)?;
            let shuttle = ShuttlePlan {
                mirror: mirror.id,
                source: *source,
                reader: *reader,
                from: mirror.writer.address().process,
                to: mirror.readers.first()?.process,
            };
            *reader += 1;
            Some(shuttle)
        };
        let mirrors = self
            .channels
            .iter()
            .filter(|channel| channel.kind == ChannelKind::Mirror);
        mirrors.filter_map(&mut shuttle).collect()
    }

    /// Returns the processes that have a joint: the driver, those of other hosts, and those with an end of a shuttle or the
    /// leader of a group over several hosts; none in a graph on one host.
    pub fn joints(&self) -> Vec<(HostId, ProcessId)> {
        let mut processes = self.processes();
        if processes.iter().all(|(host, _)| *host == HostId::DRIVER) {
            return Vec::new();
        }
        let shuttles = self.shuttles().into_iter();
        let mut ends: IdSet<ProcessId> = shuttles.flat_map(|it| [it.from, it.to]).collect();
        for group in self.communicators.iter().filter(|group| group.is_over_hosts()) {
            ends.extend(group.leaders().iter().map(|leader| leader.address.process));
        }
        processes.retain(|(host, process)| {
            *host != HostId::DRIVER || *process == ProcessId::DRIVER || ends.contains(process)
        });
        processes
    }
}
