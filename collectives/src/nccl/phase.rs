//! How far a rank's operation is.

use selvedge_channels::Tensor;
use selvedge_channels::device::{DeviceTensor, Event};

use super::transfer::Place;
use crate::operation::Collective;

/// What this rank brings.
pub(super) enum Brought {
    Tensors { tensors: Vec<DeviceTensor>, home: Home },
    Failure(Vec<u8>),
}

/// Where a result is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    Host,
    Device,
}

pub(super) enum Phase {
    Idle,
    /// The ranks agree on what they do.
    Agreeing {
        operation: Collective,
        tensors: Vec<DeviceTensor>,
        home: Home,
    },
    /// NCCL enqueues it (NCCL-2).
    Issuing {
        operation: Collective,
        places: Vec<Place>,
        home: Home,
        _tensors: Vec<DeviceTensor>,
    },
    /// The device does it, and the host waits until it is done.
    Working {
        operation: Collective,
        results: Vec<DeviceTensor>,
        done: Option<Event>,
    },
}

impl Phase {
    /// What is under way.
    pub(super) fn operation(&self) -> Option<Collective> {
        match self {
            Phase::Idle => None,
            Phase::Agreeing { operation, .. }
            | Phase::Issuing { operation, .. }
            | Phase::Working { operation, .. } => Some(*operation),
        }
    }
}

/// What an operation has come to: tensors on the device, and on the host where they are wanted there.
pub(super) enum Outcome {
    Device(Vec<DeviceTensor>),
    Host(Vec<Tensor>),
}
