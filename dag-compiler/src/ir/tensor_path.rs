//! The paths by which device tensors travel from their writer to each reader.

use std::fmt;

use selvedge_core::ActorId;
use serde::{Deserialize, Serialize};

use super::ValueId;

/// The path by which the device tensors in a value travel to a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TensorPath {
    /// The value has no device tensors: all of it travels in host memory.
    Host,
    /// By pointer and event, without a copy.
    Pointer,
    /// Through slots in device memory that both processes have mapped.
    Slots,
    /// By a device-to-device copy.
    Copy,
    /// Through slots on the writer's device, and by a copy from there to the reader's device.
    SlotsAndCopy,
    /// By NCCL, which both endpoints call.
    Nccl,
}

impl fmt::Display for TensorPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TensorPath::Host => "with the value",
            TensorPath::Pointer => "by pointer and event",
            TensorPath::Slots => "through slots on the device",
            TensorPath::Copy => "by a copy from device to device",
            TensorPath::SlotsAndCopy => "through slots on the writer's device and a copy to the reader's",
            TensorPath::Nccl => "by NCCL",
        })
    }
}

/// The path of one value to one reader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorPathPlan {
    /// The value.
    pub value: ValueId,
    /// The actor whose tasks read the value; `None` for the driver, which reads outputs.
    pub reader: Option<ActorId>,
    /// The path of the value's device tensors.
    pub path: TensorPath,
    /// The reason for the choice.
    pub why: String,
}
