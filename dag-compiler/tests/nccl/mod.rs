//! Plans as lists of NCCL calls, and ranks that execute them on the simulated driver.
#![allow(unreachable_pub)] // shared by the parts of one test

pub mod calls;
pub mod graphs;
pub mod world;
