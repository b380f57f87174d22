//! What a machine has of NVIDIA's libraries, found at run time (feature `cuda`): the driver, by the floor below, and NCCL.

mod probe;

pub use crate::nccl::Nccl;
pub use probe::{Probe, probe};
pub use selvedge_channels::device::{Device, Driver, Unavailable};
