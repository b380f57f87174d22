//! Devices of NVIDIA: their memory, streams and events, found at run time (feature `cuda`).
//!
//! Nothing is linked: programs built with the feature start on machines without a driver, and say what is missing and why.
//! Every function of the driver is called through a pointer that was looked up, and every result is a number until it has
//! been checked, so that a newer driver's codes are errors like any other.
//!
//! - `library`, `calls`, `abi`: the driver's functions, all looked up before the first is called; [`probe`]: what there is.

mod abi;
mod calls;
mod library;
mod probe;

pub use calls::DRIVER_FUNCTIONS;
pub use library::{Library, Unavailable};
pub use probe::{Device, Driver, probe};
