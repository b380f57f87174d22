#![doc = include_str!("../README.md")]

#[cfg(test)]
extern crate self as selvedge_core;

mod actor;
mod body;
mod boxed;
mod cell;
mod control;
#[cfg(feature = "hosts")]
mod head_log;
mod home;
#[cfg(feature = "hosts")]
pub mod hosts;
mod hub;
pub mod inspect;
mod lane;
mod lease;
mod lineage;
mod looking;
mod naming;
mod platform;
mod reference;
mod remote;
mod remote_channel;
mod schedule;
mod store;
mod task;
mod waiting;
mod worker;

mod actor_record;
mod actor_ref;
mod call;
mod cancel;
mod cores;
mod current;
mod cut_text;
mod deadline;
mod death;
mod directory;
mod errand;
mod error_codec;
mod failure;
pub mod flag_answer;
pub mod flags;
mod fnv;
mod function_actor;
mod id;
mod process_end;
mod process_name;
mod promise;
mod questions;
mod runtime;
mod short_name;
mod sleeper;
mod spawn;
mod spawn_error;
mod sync;
#[cfg(test)]
mod testing;
#[cfg_attr(
    not(feature = "hosts"),
    allow(dead_code, unreachable_pub, reason = "only managers choose one")
)]
mod topology;

/// Any error of user code.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

pub use actor::actor_type::{Actor, ConstructorTable, NoConstructor};
pub use actor::arguments::{Arguments, ArgumentsKind, Returned, decoded};
pub use actor::checkpoint::{Checkpoint, CheckpointEntry, CheckpointError, SavedType, UnsavedType};
pub use actor::construction::Construction;
pub use actor::error_probe::{ErrorProbe, MethodError, OpaqueError, TypedError};
pub use actor::extension::{Extension, Method};
pub use actor::list::{Gather, ListLevel};
pub use actor::parts::{Parts, PlainResult, TupleResult, WireParts, WireTupleResult};
pub use actor::probe::TypeProbe;
pub use actor::registry::{
    ACTORS, EXTENSIONS, LOADERS, UnknownActorType, UnknownExtension, check_linked, decode_error, find_actor,
    find_extension, find_method, known_actors, note_extension,
};
pub use actor::sharing::{MethodFuture, Overlap, Sharing};
pub use actor::state_probe::{PinnedState, SendState};
pub use actor::task_probe::{BindableTask, UnbindableTask};
pub use actor::{ActorEntry, Compute, ConstructorEntry, Create, MethodEntry, MethodTable, ParamEntry};
pub use actor_ref::ActorRef;
#[doc(hidden)] // for the compiler
pub use body::{Body, LentMemory};
pub use call::remote_error::{Ran, RemoteError};
pub use call::{Call, CallError};
pub use cancel::{Cancellation, Executions, Scope, cancellation, within};
pub use cell::async_driver::{AsyncDriver, Interrupted, Wanted};
pub use cell::frame::{Frame, Operands, ValueIx};
pub use cell::guarded::{Guarded, NoEntry};
pub use cell::loan::Loan;
pub use cell::state::{ActorState, WrongThread};
pub use cell::{ActorCell, RebuildFailed};
pub use cores::cores;
pub use deadline::deadline_after;
pub use death::{Death, Exit};
pub use error_codec::{ErrorCodec, SharedError};
pub use failure::{Failure, FailureKind, FailureReport, FunctionPlace, panic_message, wake};
#[doc(hidden)] // for the compiler
pub use function_actor::FunctionActor;
pub use home::handles::{EndError, Lane, Worker};
pub use home::placement::{OnPanic, Placement, PlacementLabel, Restart, UnknownPlacement};
pub use hub::{LinkTraffic, ServiceTraffic};
pub use id::{ActorId, Address, FlightId, HostId, LaneId, ProcessId};
pub use inspect::{MemberInfo, MemberState};
pub use lane::gather::gather;
pub use lane::host::LaneHost;
pub use lane::program::{LoadedPrograms, Program, ProgramLoader};
pub use lease::correspondence::{Correspondence, CorrespondenceId, Correspondent};
pub use lease::{Lease, LeaseError, Loading};
pub use lineage::{CallDigest, Loss, Lost};
pub use naming::{NameError, NameInfo};
pub use process_end::ProcessEnd;
pub use process_name::ProcessName;
#[doc(hidden)] // used by the floors above
pub use promise::{Answer, NoAnswer, Promise, promise};
#[doc(hidden)] // for the compiler
pub use reference::edge::{EdgePeers, EdgeReferences};
pub use reference::{FetchError, IntoValueError, LeakedRef, NamedRef, Ref, SetError};
pub use remote::argument::{Argument, IntoArgument};
#[doc(hidden)] // for parameters
pub use remote::argument_store::ArgumentStore;
#[doc(hidden)] // for the floor of parallel work
pub use remote::call_batch::{BatchCall, CallBatch, MapName};
pub use remote::composite::Composite;
pub use remote::function::{
    Begun, FUNCTIONS, FunctionEntry, FunctionFacts, InitEntry, RemoteBody, TypedEntry, WORKER_INITS,
};
pub use remote::here::{IntoReference, ValueHere};
pub use remote::parameter::{ArgumentTuple, Arriving, InputRef, Parameter, UnencodableArgument};
pub use remote::put::PutError;
pub use remote::remote_call::{RemoteCall, RemoteFunction};
pub use remote::scope::{CallScope, Scoped};
pub use remote::verbs::NoRuntime;
pub use remote_channel::{ChannelIter, ChannelStream, PutRefused, RemoteChannel, RemoteChannelError};
pub use runtime::{Runtime, ShutdownReport};
pub use schedule::Resources;
pub use selvedge_channels::memory::made_in::MadeIn;
#[doc(hidden)] // used by the compiler
pub use selvedge_cluster::id_key;
#[doc(hidden)] // used by the compiler
pub use selvedge_cluster::id_map::{IdKey, IdMap, IdSet, InOrder};
#[doc(hidden)] // for the facade: the number of a process among all of a runtime
pub use selvedge_cluster::peer;
pub use selvedge_objects::refs::{RefError, RefId, RefStats};
pub use selvedge_objects::store::{
    ListedObject, ObjectPlace, StoreError, StoreFull, StoreHolder, StoreId, StoreReport, StoredObject,
};
pub use spawn::{AnyProcess, Spawn, ThisProcess};
pub use spawn_error::SpawnError;
pub use store::options::StoreOptions;
pub use task::listing::{CallInfo, CallState, FunctionInfo};
pub use task::step::CallCancelled;
pub use worker::hello::HelloError;
pub use worker::launch::NotAllowed;
pub use worker::premain::init;
