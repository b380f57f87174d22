//! How tensors of devices get from who makes them to who reads them.

use std::fmt;

use selvedge_core::ActorId;
use serde::{Deserialize, Serialize};

use super::ValueId;

/// How the tensors of a device in a value get to a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Road {
    /// There are none: what there is travels in the memory of hosts.
    Host,
    /// By pointer and event; nothing is copied.
    Pointer,
    /// Through slots of the device's memory that both processes have mapped.
    Slots,
    /// By a copy from device to device.
    Copy,
    /// Through slots on the writer's device, and by a copy from there to the reader's.
    SlotsAndCopy,
    /// By NCCL, which both ends call.
    Nccl,
}

impl fmt::Display for Road {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Road::Host => "with the value",
            Road::Pointer => "by pointer and event",
            Road::Slots => "through slots on the device",
            Road::Copy => "by a copy from device to device",
            Road::SlotsAndCopy => "through slots on the writer's device and a copy to the reader's",
            Road::Nccl => "by NCCL",
        })
    }
}

/// The road of one value to one reader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoadPlan {
    /// The value.
    pub value: ValueId,
    /// Whose tasks read it; `None` for the driver, who reads outputs.
    pub reader: Option<ActorId>,
    /// How its tensors get there.
    pub road: Road,
    /// Why so.
    pub why: String,
}
