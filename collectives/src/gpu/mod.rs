//! What a machine has of NVIDIA's libraries, found at run time (feature `cuda`): the driver, by the floor below, and NCCL.

mod nccl;
mod probe;

pub use nccl::Nccl;
pub use probe::{Probe, probe};
pub use selvedge_channels::device::{Device, Driver, Unavailable};
