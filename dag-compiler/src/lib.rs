//! The compiler of selvedge. It turns a graph of typed edges into one short program per lane, proves the programs free
//! of deadlock, and runs them in a loop.
//!
//! The folders, in the order in which a graph passes through them:
//!
//! - `api`: the types that users hold ([`Compile`], [`Graph`], [`Execution`], [`Options`]) and the entry from a runtime
//!   to a running graph.
//! - `bind`: runs the user's function once over [`Edge`]s.
//! - `ir`: the plain data between the stages, up to the [`Plan`].
//! - `plan`: the stages, pure functions over `ir`; its file `compile.rs` runs them as one pipeline.
//! - `prove`: checks independently that no lane can wait for ever.
//! - `load`: creates the lanes of a process with their channel ends.
//! - `run`: the loop of the lanes, the driver, and the errors of executions.
//! - `show`: draws plans and traces.
//!
//! The order is that of data, not of dependence: `bind` and `run` use each other.
//!
//! Users need only what this page lists. The stages `bind`, `ir`, `plan` and `prove` are public for the tests and the
//! command line of the same version; they are no stable interface.
//!
//! This floor uses actors only through leases and programs. It does not know how a worker process is made.

mod api;
#[doc(hidden)]
pub mod bind;
#[doc(hidden)]
pub mod ir;
mod load;
#[doc(hidden)]
pub mod plan;
#[doc(hidden)]
pub mod prove;
mod run;
mod show;

mod diagnostic;
mod error;

pub use api::execution::Execution;
pub use api::graph::{Counters, Graph};
pub use api::map::{Map, Streamed};
pub use api::options::{OnFull, Options, Slots, Wait};
pub use api::start::Compile;
pub use bind::collective::{
    Contribution, Ranks, all_to_all, allgather, allreduce, barrier, broadcast, gather, reduce,
    reduce_scatter, scatter,
};
pub use bind::edge::{Edge, constant, list};
pub use bind::ports::{Collected, InputPorts, Inputs, OutputList, Outputs, Submitter};
pub use bind::transport::Transport;
#[doc(hidden)] // used by the code that `#[actor]` generates
pub use bind::{Bind, bind};
pub use diagnostic::{Code, Diagnostic};
pub use error::CompileError;
pub use ir::{BindIndex, Lanes, Plan, SourceLocation, TaskId};
#[cfg(feature = "cuda")]
#[doc(hidden)] // used by `carries_tensors!`
pub use load::CARRIERS;
pub use plan::memory::{ChannelMemory, MemoryPlan};
pub use plan::pipeline;
pub use plan::profile::{Profile, Work};
pub use prove::forecast::{Forecast, forecast};
pub use prove::throughput::{ThroughputBound, bound};
pub use run::control::Phase;
pub use run::engine::teardown::{StuckLane, Teardown};
pub use run::error::{ActorDied, ExecError, Refused, Suspect, Timeout};
pub use run::report::{Cause, TaskError, TaskInfo};
pub use run::trace::Event;
#[doc(hidden)] // used by the floors above
pub use selvedge_channels::{debug_is_report, dispose};
#[doc(hidden)] // used by the floors above
pub use selvedge_core::{Answer, NoAnswer, Promise, panic_message, promise};
pub use show::BadPlan;
