//! Endpoints: the two places between which an edge carries a value.

use selvedge_core::{Address, HostId, ProcessId};

/// The place of one end of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// True for the driver, which writes inputs and reads outputs; false for an actor.
    pub driver: bool,
    /// The host of the endpoint.
    pub host: HostId,
    /// The process of the endpoint.
    pub process: ProcessId,
    /// The device on which the tensors of the endpoint lie, if a device was declared.
    pub device: Option<u32>,
}

impl Endpoint {
    /// The endpoint of the driver.
    pub const DRIVER: Endpoint = Endpoint {
        driver: true,
        host: HostId::DRIVER,
        process: ProcessId::DRIVER,
        device: None,
    };

    /// Returns the endpoint of an actor.
    pub fn actor(address: Address, device: Option<u32>) -> Self {
        Endpoint {
            driver: false,
            host: address.host,
            process: address.process,
            device,
        }
    }
}
