//! The compiler of selvedge: a graph of typed edges becomes one short program per lane, proven free of deadlock, and
//! runs in a loop.
//!
//! The path of a graph, each stage a file of pure functions over plain data in [`ir`]:
//!
//! - `bind`: the user's function runs once over [`Edge`]s.
//! - [`mod@validate`]: everything that is bound is used.
//! - [`mod@collective`]: what several actors do together.
//! - [`mod@transport`]: how every value crosses from actor to actor.
//! - `lanes`: which lanes there are.
//! - [`mod@lower`]: tasks become READ, COMPUTE, COLLECTIVE and WRITE operations.
//! - [`mod@order`]: one global linear order.
//! - [`mod@schedule`]: its projection onto lanes.
//! - [`mod@place`]: channels, from who writes and who reads; `groups`: who does collectives together.
//! - [`mod@prove`]: an independent check that no lane can wait for ever.
//! - [`mod@compile`]: the pipeline, as one function; `show` and `memory` show what came out,
//!   `inspect` where a flag asks for it.
//! - [`mod@pipeline`]: orders of binds for pipeline parallelism.
//! - `load`: a process's lanes with their channel ends.
//! - `start`, `run`: leases, workers, and the loop; [`Graph`] and [`Execution`] are what users hold.
//!
//! This floor uses actors through leases and programs only; it never knows how a worker process is made.

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
#[doc(hidden)] // for `carries_tensors!`
pub use load::CARRIERS;
pub use map::Map;
pub use memory::{ChannelMemory, MemoryPlan};
pub use options::{OnFull, Options, Slots, Wait};
pub use ports::{Collected, InputPorts, Inputs, OutputList, Outputs, Submitter};
pub use profile::{Profile, Work};
pub use prove::forecast::{Forecast, forecast};
pub use prove::throughput::{Bound, bound};
pub use run::control::Phase;
pub use run::error::{ActorDied, ExecError, Refused, Suspect, Timeout};
pub use run::report::{Cause, TaskError, TaskInfo};
pub use run::teardown::{StuckLane, Teardown};
pub use run::trace::Event;
#[doc(hidden)] // for the floors above
pub use selvedge_channels::debug_is_report;
pub use show::BadPlan;
pub use start::Compile;
pub use stream::Streamed;
pub use transport::Transport;
