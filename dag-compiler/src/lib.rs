//! The compiler of selvedge. It turns a graph of typed edges into one short program per lane, proves the programs free
//! of deadlock, and runs them in a loop.
//!
//! A graph passes through these stages. The planning stages are pure functions over plain data in [`ir`].
//!
//! - `bind`: runs the user's function once over [`Edge`]s.
//! - [`mod@validate`]: checks that everything that is bound is used.
//! - [`mod@collective`]: operations that several actors do together.
//! - [`mod@transport`]: decides how every value crosses from actor to actor.
//! - `lanes`: decides the lanes of the graph.
//! - [`mod@lower`]: turns tasks into READ, COMPUTE, COLLECTIVE and WRITE operations.
//! - [`mod@order`]: builds one global linear order.
//! - [`mod@schedule`]: projects the global order onto lanes.
//! - [`mod@place`]: derives channels from the writer and the readers of each value; `groups` derives groups of ranks.
//! - [`mod@prove`]: checks independently that no lane can wait for ever.
//! - [`mod@compile`]: runs the pipeline as one function. `show` and `memory` present the result, and `inspect` does so
//!   if a flag asks for it.
//! - [`mod@pipeline`]: orders of binds for pipeline parallelism.
//! - `load`: creates the lanes of a process with their channel ends.
//! - `start`, `run`: leases, workers, and the loop. [`Graph`] and [`Execution`] are the types that users hold.
//!
//! This floor uses actors only through leases and programs. It does not know how a worker process is made.

pub mod ir;

mod edge;

mod bind;

pub mod collective;

mod ports;

mod options;

pub mod validate;

pub mod transport;

mod lanes;

mod cost;

pub mod lower;

pub mod order;

pub mod schedule;

pub mod place;

mod groups;

pub mod prove;

pub mod compile;

mod memory;

mod show;

mod inspect;

mod load;

mod start;

mod run;

mod profile;

mod graph;

mod execution;

pub mod pipeline;

mod map;

mod stream;

mod diagnostic;
mod error;

pub use bind::{Bind, bind};
pub use collective::{
    Contribution, Ranks, all_to_all, allgather, allreduce, barrier, broadcast, gather_to, reduce,
    reduce_scatter, scatter,
};
pub use diagnostic::{Code, Diagnostic};
pub use edge::{Edge, constant, gather};
pub use error::CompileError;
pub use execution::Execution;
pub use graph::{Counters, Graph};
pub use ir::{Lanes, Plan, SourceLocation};
#[cfg(feature = "cuda")]
#[doc(hidden)] // used by `carries_tensors!`
pub use load::CARRIERS;
pub use map::Map;
pub use memory::{ChannelMemory, MemoryPlan};
pub use options::{OnFull, Options, Slots, Wait};
pub use ports::{Collected, InputPorts, Inputs, OutputList, Outputs, Submitter};
pub use profile::{Profile, Work};
pub use prove::forecast::{Forecast, forecast};
pub use prove::throughput::{ThroughputBound, bound};
pub use run::control::Phase;
pub use run::error::{ActorDied, ExecError, Refused, Suspect, Timeout};
pub use run::report::{Cause, TaskError, TaskInfo};
pub use run::teardown::{StuckLane, Teardown};
pub use run::trace::Event;
#[doc(hidden)] // used by the floors above
pub use selvedge_channels::debug_is_report;
pub use show::BadPlan;
pub use start::Compile;
pub use stream::Streamed;
pub use transport::Transport;
