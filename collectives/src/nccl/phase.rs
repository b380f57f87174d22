//! Phases of a rank's operation.

use selvedge_channels::Tensor;
use selvedge_channels::device::{DeviceTensor, Event};

use super::transfer::Place;
use crate::operation::Collective;

/// The contribution of this rank.
pub(super) enum Contributed {
    Tensors { tensors: Vec<DeviceTensor>, home: Home },
    Failure(Vec<u8>),
}

/// The memory in which a result is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    Host,
    Device,
}

pub(super) enum Phase {
    Idle,
    /// The ranks agree on the operation.
    Agreeing {
        operation: Collective,
        tensors: Vec<DeviceTensor>,
        home: Home,
    },
    /// NCCL enqueues the operation (NCCL-2).
    Issuing {
        operation: Collective,
        places: Vec<Place>,
        home: Home,
        _tensors: Vec<DeviceTensor>,
    },
    /// The device does the operation, and the host waits until it is done.
    Working {
        operation: Collective,
        results: Vec<DeviceTensor>,
        done: Option<Event>,
    },
}

impl Phase {
    /// Returns the operation in flight.
    pub(super) fn operation(&self) -> Option<Collective> {
        match self {
            Phase::Idle => None,
            Phase::Agreeing { operation, .. }
            | Phase::Issuing { operation, .. }
            | Phase::Working { operation, .. } => Some(*operation),
        }
    }
}

/// The outcome of an operation: tensors on the device, or on the host if they are wanted there.
pub(super) enum Outcome {
    Device(Vec<DeviceTensor>),
    Host(Vec<Tensor>),
}
