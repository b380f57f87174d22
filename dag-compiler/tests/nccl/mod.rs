//! Plans as lists of NCCL's calls, and ranks that carry them out on the simulated driver.
#![allow(unreachable_pub)] // shared by the parts of one test

pub mod calls;
pub mod graphs;
pub mod world;
