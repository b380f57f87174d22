//! The NVIDIA libraries of a machine, found at run time (feature `cuda`): the driver, by the layer below, and NCCL.

mod probe;

pub use crate::nccl::Nccl;
pub use probe::{Probe, probe};
pub use selvedge_channels::device::{Device, Driver, Unavailable};
