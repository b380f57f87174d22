//! The actors of selvedge: their places, their supervision, and the lending of their threads.
//!
//! This crate does not know graphs. Its modules, from the user's type to the thread that runs it:
//!
//! - `actor`, `registry`: an actor type as plain data, found by name in every process of the program.
//! - `runtime`, `spawn`, `placement`, `places`: the name, the place and the policies of an actor.
//! - `state`, `cell`, `lane`: the state of an actor, and the thread that runs its methods one at a time.
//! - `call`: ordinary calls.
//! - `lease`, `program`: leases, under which a lane runs the programs of a client.
//! - `operands`, `invocation`, `hop`: the arguments and results of methods that such a program runs.
//! - `worker`: worker processes, the same executable run again.
//! - `control`: the control plane, ractor actors on one thread of the driver.
//! - `death`, `failure`: deaths of processes and actors, failures of methods.
//! - [`flags`]: command-line flags and environment variables that every program understands.

pub(crate) mod id;

pub(crate) mod actor;

pub(crate) mod registry;

pub(crate) mod runtime;

pub(crate) mod spawn;

pub(crate) mod placement;

pub(crate) mod places;

mod cores;

pub(crate) mod actor_ref;

pub(crate) mod call;

pub(crate) mod arguments;

pub(crate) mod promise;

pub(crate) mod state;

pub(crate) mod cell;

pub(crate) mod lane;

pub(crate) mod async_driver;

pub(crate) mod operands;

pub(crate) mod invocation;

pub(crate) mod hop;

pub(crate) mod list;

pub(crate) mod parts;

pub(crate) mod program;

pub(crate) mod lease;

pub(crate) mod directory;

pub(crate) mod actor_record;

pub(crate) mod control;

pub(crate) mod worker;

mod made_in;

mod deadline;

pub(crate) mod death;

pub(crate) mod failure;

pub mod flags;

pub(crate) mod guarded;

/// Any error of user code.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

pub use actor::{Actor, ActorEntry, ComputeHop, Create, MethodEntry, MethodTable, ParamEntry};
pub use actor_ref::ActorRef;
pub use arguments::{Arguments, ArgumentsKind, Returned};
pub use async_driver::{AsyncDriver, Interrupted, Wanted};
pub use call::{Call, CallError};
pub use cell::{ActorCell, RebuildFailed};
pub use cores::cores;
pub use deadline::deadline_after;
pub use death::{Death, Exit};
pub use failure::{Failure, FailureKind, FailureReport, panic_message, wake};
pub use guarded::{Guarded, NoEntry};
pub use hop::{Destination, Hop};
pub use id::{ActorId, LaneId, ProcessId};
pub use invocation::Invocation;
pub use lane::gather::gather;
pub use lane::host::LaneHost;
pub use lease::{Lease, LeaseError, Loading};
pub use list::{Gather, ListLevel};
pub use made_in::MadeIn;
pub use operands::Operands;
pub use parts::{Parts, PartsProbe, PlainResult, TupleResult};
pub use placement::{OnPanic, Placement, PlacementLabel, Restart, UnknownPlacement};
pub use places::{EndError, Lane, Worker};
pub use program::{LoadedPrograms, Program, ProgramLoader};
pub use registry::{ACTORS, LOADERS, UnknownActorType, find_actor, known_actors};
pub use runtime::{Runtime, ShutdownReport};
pub use spawn::{Spawn, SpawnError};
pub use state::ActorState;
pub use worker::hello::HelloError;
pub use worker::launch::NotAllowed;
pub use worker::premain::init;
