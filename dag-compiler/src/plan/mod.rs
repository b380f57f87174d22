//! The stages of the compiler, in order: pure functions over the plain data of [`ir`](crate::ir).
//!
//! - [`mod@validate`]: checks that everything that is bound is used.
//! - `lanes`: decides the lanes of the graph.
//! - [`mod@lower`]: turns tasks into READ, COMPUTE, COLLECTIVE and WRITE operations.
//! - [`mod@order`]: builds one global linear order, from the `cost` of each task.
//! - [`mod@schedule`]: projects the global order onto lanes.
//! - [`mod@place`]: derives channels from the writer and the readers of each value; the groups of ranks from the collectives.
//! - [`mod@compile`]: runs the stages, and the prover, as one function. `memory` sums up what the channels take.
//! - [`mod@pipeline`] and `profile`: what users know of the order and the durations of tasks.

pub mod validate;

pub(crate) mod lanes;

pub mod lower;

mod rendezvous;

pub mod order;
mod payloads;

pub(crate) mod cost;

pub mod schedule;

pub mod place;

mod tensor_paths;

pub mod compile;

pub(crate) mod memory;

pub mod pipeline;

pub(crate) mod profile;
