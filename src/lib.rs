#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../README.md")]
//!
//! # What happens
//!
//! ```text
//! #[actor] impl Tok { .. }       a type becomes an actor, and TokHandle its handle
//!        | spawn                 inline, on a thread or in a worker process
//!        v
//! compile(|x| b.g(&a.f(&x)))     methods of handles bind tasks; edges are typed
//!        |                       ordered, proven free of deadlock, given channels, loaded
//!        v
//!      Graph                     every lane runs its part in a loop
//!        | execute(value)        several executions may be in flight
//!        v
//!    Execution                   wait, .await, or drop to cancel
//! ```
//!
//! By type: [`macro@actor`], [`Runtime`] and [`Spawn`], [`Compile`] and [`Edge`], [`Graph`], [`Execution`]; a [`Plan`] is what was
//! compiled, as data.
//!
//! # Where to look
//!
//! | you want | look at |
//! |---|---|
//! | write an actor | [`actor`] |
//! | place it | [`Runtime::spawn`], [`Spawn`] |
//! | bind and compile a graph | [`Compile`], [`Edge`], [`constant`], [`Options`] |
//! | run it | [`Graph`], [`Execution`] |
//! | understand an error | [`ExecError`], [`CompileError`], [`CallError`] |
//! | put the requests of many clients together | [`batching`] |
//! | call an actor without a graph | [`Call`] |
//!
//! # Features
//!
//! | feature | default | what it does |
//! |---|---|---|
//! | `premain` | yes | a worker process becomes one before `main` (Linux), so tests and benches need no set-up |
//! | `half` | no | 16-bit floats, of the `half` crate, as elements of tensors |
//! | `bytes` | no | tensors to and from `bytes::Bytes` |
//! | `ndarray` | no | tensors to and from arrays of `ndarray` |
//! | `dlpack` | no | tensors to and from other frameworks, by the DLPack C interface; with `cuda` those on devices too |
//! | `cuda` | no | tensors on devices of NVIDIA: on edges (`device`), in collectives by NCCL (`collectives::nccl`); found at run time, nothing is linked |

// The attribute macro names the crate from outside; inside its own tests and docs it is the same crate.
extern crate self as selvedge;

pub use selvedge_batching as batching;
#[doc(hidden)] // for errors of the examples
pub use selvedge_channels::debug_is_report;
#[cfg(feature = "cuda")]
pub use selvedge_channels::device;
pub use selvedge_channels::{DType, Element, Tensor, TensorError, TensorLayout, Waiting, Wire};
#[cfg(feature = "dlpack")]
pub use selvedge_channels::{DlPack, DlPackError, dlpack};
pub use selvedge_collectives as collectives;
pub use selvedge_collectives::{Contribute, ReduceOp};
pub use selvedge_compiler::{
    ActorDied, Bound, Cause, Compile, CompileError, Contribution, Counters, Edge, Event, ExecError,
    Execution, Forecast, Graph, Inputs, Lanes, Map, OnFull, Options, Outputs, Phase, Plan, Profile, Ranks,
    Refused, Slots, SourceLocation, StuckLane, Suspect, TaskError, TaskInfo, Teardown, Timeout, Transport,
    Wait, Work, all_to_all, allgather, allreduce, barrier, bound, broadcast, constant, forecast, gather,
    gather_to, pipeline, reduce, reduce_scatter, scatter,
};
pub use selvedge_core::{
    Actor, ActorRef, BoxError, Call, CallError, Death, EndError, Exit, Failure, FailureKind, FailureReport,
    Lane, OnPanic, Placement, Restart, Runtime, ShutdownReport, Spawn, SpawnError, Worker, cores, init,
};
pub use selvedge_macros::actor;

/// The result of a user's method or program: any error that is `Send + Sync`.
pub type Result<T, E = BoxError> = std::result::Result<T, E>;

pub mod guide;

/// Everything a program with a graph needs.
pub mod prelude {
    pub use crate::batching::{Batcher, Batching};
    pub use crate::{
        Actor, Compile, Edge, ExecError, Execution, Graph, Lanes, OnFull, OnPanic, Options, Placement,
        ReduceOp, Restart, Result, Runtime, Tensor, Wait, Wire, actor, allgather, allreduce, constant,
        gather,
    };
}

/// Makes a type known that is contributed to collectives in graphs: `selvedge::contributes!(Gradients);`, beside the type. It
/// implements [`Contribute`] and can travel along an edge.
#[macro_export]
macro_rules! contributes {
    ($type:ty) => {
        const _: () = {
            #[$crate::__private::linkme::distributed_slice($crate::__private::CONTRIBUTORS)]
            #[linkme(crate = $crate::__private::linkme)]
            static __SELVEDGE_CONTRIBUTOR: $crate::__private::Adapter =
                $crate::__private::Adapter::of::<$type>();
        };
    };
}

/// Makes a type known whose values carry tensors of a device ([`device::DeviceTensor`]), so that these can go to other processes
/// without leaving the device: `selvedge::carries_tensors!(Batch);`, beside the type. Tensors themselves, and lists of them, need
/// not be made known.
///
/// Each tensor is put back once, by the first place that asks for it: a type that tries several readings of the same bytes, as
/// serde's untagged enums do, is refused where the first reading takes a tensor and then fails.
#[cfg(feature = "cuda")]
#[macro_export]
macro_rules! carries_tensors {
    ($type:ty) => {
        const _: () = {
            #[$crate::__private::linkme::distributed_slice($crate::__private::CARRIERS)]
            #[linkme(crate = $crate::__private::linkme)]
            static __SELVEDGE_CARRIER: fn() -> $crate::__private::PayloadType =
                $crate::__private::PayloadType::with_tensors::<$type>;
        };
    };
}

/// Makes a communicator of one's own known to graphs, which ask for it by [`Options::communicator`]:
/// `selvedge::communicator_backend!(Backend { name: "mine", capabilities, join });`. See [`collectives::Backend`].
#[macro_export]
macro_rules! communicator_backend {
    ($backend:expr) => {
        const _: () = {
            #[$crate::__private::linkme::distributed_slice($crate::__private::BACKENDS)]
            #[linkme(crate = $crate::__private::linkme)]
            static __SELVEDGE_BACKEND: $crate::collectives::Backend = $backend;
        };
    };
}

/// What generated code names. Not part of the public interface.
#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
