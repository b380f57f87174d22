//! Channels of selvedge: one writer, N readers, K slots, in one process or across processes.
//!
//! This crate knows neither actors nor graphs. The modules, from values down to memory:
//!
//! - [`channel`]: stand-alone channels with typed endpoints, for programs that need nothing else: [`ChannelOptions`],
//!   [`Writer`], [`Reader`].
//! - [`payload`]: the encoding of any serde value as a small head and raw, aligned parts; [`Tensor`].
//! - [`fault`]: the message that travels in the place of a value when a task has failed or is cancelled.
//! - [`outlet`], [`value`]: the endpoints that a lane works with; [`kind`] makes them for a type that is known only at
//!   run time.
//! - [`TensorSchema`]: the schema of the tensors in a value.
//! - [`ring`](mod@ring): the in-process channel; values move by pointer.
//! - [`shared`]: the channel between processes; it grows when a payload is larger than a slot.
//! - [`doorbell`], [`waiting`], [`spin_budget`], [`shared_core`]: one wait for all channels of a lane. A waiter spins
//!   for about as long as its waits usually take, then parks on a futex; a thread that shares its core with the thread
//!   it waits for moves to another core.
//! - [`segment`], [`region`]: the memory of channels.
//! - [`process`](mod@process), [`deaths`]: the processes that hold the other endpoints, and the detection of their
//!   death.
#![cfg_attr(
    feature = "cuda",
    doc = "- [`device`]: memory, streams and events of NVIDIA's devices, and channels of tensors that stay there."
)]

#[cfg(not(loom))] // loom has no shared memory; its models run the protocol of both rings on the heap
pub mod payload;

pub mod fault;

#[cfg(not(loom))]
mod head;

#[cfg(not(loom))]
pub mod outlet;

#[cfg(not(loom))]
mod schema;

#[cfg(not(loom))]
pub mod value;

#[cfg(not(loom))]
pub mod kind;

pub mod ring;

#[cfg(not(loom))]
pub mod shared;

#[cfg(not(loom))]
pub mod channel;

#[cfg(all(feature = "cuda", not(loom)))]
pub mod device;

pub mod doorbell;

#[cfg(not(loom))]
pub mod spin_budget;
pub mod waiting;

#[cfg(not(loom))]
pub mod region;

#[cfg(not(loom))]
pub mod segment;

pub mod error;
mod report;

#[cfg(all(not(loom), any(test, fuzzing)))]
pub mod fuzzing;

mod cursor;
#[cfg(not(loom))]
pub mod deaths;
mod dispose;
#[doc(hidden)] // for the tests of the crates above this one
pub mod fault_point;
mod futex;
#[cfg(not(loom))]
mod prefetch;
#[cfg(not(loom))]
pub mod process;
#[cfg(not(loom))]
pub mod shared_core;
mod sync;

#[cfg(not(loom))]
pub use channel::{
    ChannelMemory, ChannelOptions, Descriptor, Loan, Reader, SendError, SharedChannel, View, Writer,
};
pub use dispose::dispose;
pub use doorbell::Doorbell;
pub use error::{ChannelError, Culprit, DecodeError, EncodeError, End, MemoryLimit, SegmentError};
pub use fault::{Fault, FaultKind, Message};
#[cfg(not(loom))]
pub use kind::PayloadType;
#[cfg(not(loom))]
pub use outlet::{AnyOutlet, Outlet, Routes};
#[cfg(not(loom))]
pub use payload::{
    DType, Element, Encoded, SerdeError, Tensor, TensorError, TensorLayout, Travels, Wire, bytes_of, decode,
    encode, view_slice, view_str,
};
#[cfg(all(feature = "dlpack", not(loom)))]
pub use payload::{DlPack, DlPackError, dlpack};
#[cfg(not(loom))]
pub use region::Region;
#[doc(hidden)]
pub use report::report;
pub use ring::{RingReader, RingWriter, ring};
#[cfg(not(loom))]
pub use schema::TensorSchema;
#[cfg(not(loom))]
pub use segment::{Provider, SEGMENT_HEADER_BYTES, Segment, SegmentId};
#[cfg(not(loom))]
pub use shared::{SharedReader, SharedSpec, SharedWriter, format};
#[cfg(not(loom))]
pub use shared_core::Mover;
#[cfg(not(loom))]
pub use spin_budget::SpinBudget;
#[cfg(not(loom))]
pub use value::{AnyValue, Arrival, Inlet, Readiness, Value};
pub use waiting::Waiting;

/// The code of the README, compiled and run as documentation tests.
#[cfg(all(doctest, not(any(loom, miri))))]
#[doc = include_str!("../README.md")]
struct Readme;
