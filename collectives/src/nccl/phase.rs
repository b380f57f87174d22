//! Phases of a rank's operation.

use selvedge_channels::Tensor;
use selvedge_channels::device::{DeviceTensor, Event};

use super::transfer::ResultBuffer;
use crate::error::CommError;
use crate::operation::Collective;
use crate::rendezvous::Proposal;

/// The contribution of this rank.
pub(super) enum Contributed {
    Tensors {
        tensors: Vec<DeviceTensor>,
        wanted: Destination,
    },
    Failure(Vec<u8>),
}

/// The memory in which a result is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    Host,
    Device,
}

pub(super) enum Phase {
    Idle,
    /// The rank has not arrived, because it is not connected yet.
    Launched {
        operation: Collective,
        contributed: Contributed,
    },
    /// The ranks agree on the operation.
    Agreeing {
        proposal: Proposal,
        tensors: Vec<DeviceTensor>,
        wanted: Destination,
    },
    /// NCCL enqueues the operation (NCCL-2).
    Issuing {
        operation: Collective,
        buffers: Vec<ResultBuffer>,
        wanted: Destination,
        _tensors: Vec<DeviceTensor>,
    },
    /// The device does the operation, and the host waits until it is done.
    Working {
        operation: Collective,
        results: Vec<DeviceTensor>,
        done: Option<Event>,
    },
    /// NCCL has failed, and the death that is the cause is not reported yet.
    Broken {
        operation: Collective,
        error: CommError,
    },
}

impl Phase {
    /// Returns the operation in flight.
    pub(super) fn operation(&self) -> Option<Collective> {
        match self {
            Phase::Idle => None,
            Phase::Agreeing { proposal, .. } => Some(proposal.operation),
            Phase::Launched { operation, .. }
            | Phase::Issuing { operation, .. }
            | Phase::Working { operation, .. }
            | Phase::Broken { operation, .. } => Some(*operation),
        }
    }

    /// Returns the phase, and leaves the rank idle.
    pub(super) fn take(&mut self) -> Phase {
        std::mem::replace(self, Phase::Idle)
    }
}

/// The outcome of an operation: tensors on the device, or on the host if they are wanted there.
pub(super) enum Outcome {
    Device(Vec<DeviceTensor>),
    Host(Vec<Tensor>),
}
