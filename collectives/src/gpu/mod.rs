//! What a machine has of NVIDIA's libraries, found at run time (feature `cuda`).
//!
//! Nothing is linked: programs built with the feature start on machines without a driver, and say what is missing and why.
//! Every function of a library is called through a pointer that was looked up, and every result is a number until it has been
//! checked, so that a newer library's codes are errors like any other.

mod library;
mod probe;

pub use library::Unavailable;
pub use probe::{Device, Driver, Nccl, Probe, probe};
