//! The start of a graph in its worker processes.

use std::time::Instant;

use selvedge_channels::SegmentId;
use selvedge_core::{HostId, Lease, LeaseError, ProcessId};

use crate::ir::Plan;
use crate::load::{KIND, Referring, Shipment};
use crate::run::hosts::Joint;

/// The start of a graph's programs in its worker processes.
pub(super) struct WorkerStart<'a> {
    pub(super) plan: &'a Plan,
    pub(super) lease: &'a Lease,
    pub(super) referring: &'a Referring,
    pub(super) joint: Option<&'a Joint>,
    pub(super) deadline: Instant,
}

impl WorkerStart<'_> {
    /// Has all workers load and start their programs. The stewards of other hosts come first, because they make the memory of
    /// their hosts. `segment` is the memory of this one.
    pub(super) fn start(&self, segment: Option<SegmentId>) -> Result<(), LeaseError> {
        let (mut first, mut then) = (Vec::new(), Vec::new());
        for (host, process) in self.plan.processes() {
            match (host, self.plan.steward(host) == process) {
                (HostId::DRIVER, true) => {}
                (HostId::DRIVER, false) => first.extend(segment.clone().map(|id| (process, Some(id)))),
                (_, true) => first.push((process, None)),
                (host, false) => then.push((host, process)),
            }
        }
        self.load(first)?;
        let memory = |(host, process)| (process, self.joint.and_then(|joint| joint.memory_of(host)));
        self.load(then.into_iter().map(memory).collect())
    }

    fn load(&self, processes: Vec<(ProcessId, Option<SegmentId>)>) -> Result<(), LeaseError> {
        let mut loading = Vec::with_capacity(processes.len());
        for (process, segment) in processes {
            let bytes = postcard::to_allocvec(&self.shipment(process, segment)).unwrap_or_default();
            loading.push(self.lease.load_worker(process, KIND, bytes, self.deadline)?);
        }
        loading.into_iter().try_for_each(|it| it.wait(self.deadline))
    }

    fn shipment(&self, process: ProcessId, segment: Option<SegmentId>) -> Shipment {
        Shipment {
            process,
            peers: self.referring.references.peers().clone(),
            referring: self.referring.values.iter().copied().collect(),
            segment,
            correspondence: self.joint.map(Joint::id),
            plan: self.plan.clone(),
        }
    }
}
