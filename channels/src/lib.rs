//! Channels of selvedge: one writer, N readers, K slots, in one process or across processes.
//!
//! This crate knows neither actors nor graphs. The folders, from values down to memory:
//!
//! - [`channel`]: stand-alone channels with typed endpoints, for programs that need nothing else: [`ChannelOptions`],
//!   [`Writer`], [`Reader`].
//! - [`kind`]: the ends of every kind of channel, behind two traits, and the only list of kinds.
//! - [`port`]: the endpoints that a lane works with, and how they are made for a type that is known only at run time.
//! - [`payload`]: the encoding of any serde value as a small head and raw, aligned parts; [`Tensor`].
//! - [`ring`](mod@ring): the in-process channel; values move by pointer.
//! - [`shared`]: the channel between processes; it grows when a payload is larger than a slot.
//! - [`wait`]: one wait for all channels of a lane. A waiter spins for about as long as its waits usually take, then
//!   parks on a futex; a thread that shares its core with the thread it waits for moves to another core.
//! - [`byte_ring`]: a stream of bytes from one process to another, through a ring in a segment.
//! - [`array`](mod@array): arrays of numbers that several processes map.
//! - [`memory`]: the memory of channels, the processes that hold the other endpoints, and the detection of their death.
//!
//! Beside them, [`fault`] is the message that travels in the place of a value when a task has failed or is cancelled.
#![cfg_attr(
    feature = "cuda",
    doc = "[`device`]: memory, streams and events of NVIDIA's devices, and channels of tensors that stay there."
)]

// loom has no shared memory: its models run the ring, the doorbell, the waits and the words of arrays on the heap.
#[cfg(not(loom))]
pub mod array;
#[cfg(not(loom))]
pub mod byte_ring;
#[cfg(not(loom))]
pub mod channel;
#[cfg(all(feature = "cuda", not(loom)))]
pub mod device;
#[cfg(not(loom))]
pub mod kind;
#[cfg(not(loom))]
pub mod memory;
#[cfg(not(loom))]
pub mod payload;
#[cfg(not(loom))]
pub mod port;
pub mod ring;
#[cfg(not(loom))]
pub mod shared;
pub mod wait;

mod dispose;
pub mod error;
pub mod fault;
#[doc(hidden)] // for the tests of the crates above this one
pub mod fault_point;
#[cfg(all(not(loom), any(test, fuzzing)))]
#[path = "../tests/support/fuzzing.rs"]
pub mod fuzzing;
#[doc(hidden)] // for its model
pub mod in_use;
#[doc(hidden)] // for the crates above this one
pub mod platform;
#[cfg(not(loom))]
mod prefetch;
mod report;
mod sync;

#[cfg(not(loom))]
pub use byte_ring::{BYTE_RING_HEADER, ByteReader, ByteWriter};
#[cfg(not(loom))]
pub use channel::{
    ChannelMemory, ChannelOptions, Descriptor, Loan, Reader, SendError, SharedChannel, View, Writer,
};
pub use dispose::dispose;
pub use error::{ChannelError, Culprit, DecodeError, EncodeError, End, MemoryLimit, SegmentError};
pub use fault::{Fault, FaultKind, Message};
#[cfg(not(loom))]
pub use kind::local::Local;
#[cfg(not(loom))]
pub use kind::record::{RECORD_BYTES, Record, RecordsIn, RecordsOut, TakenOver};
#[cfg(not(loom))]
pub use kind::{Arrival, Inlet, Route, traits::Traits};
#[cfg(not(loom))]
pub use memory::region::Region;
#[cfg(not(loom))]
pub use memory::segment::{Provider, SEGMENT_HEADER_BYTES, Segment, SegmentId};
#[cfg(all(feature = "arrow", not(loom)))]
pub use payload::arrow;
#[cfg(not(loom))]
pub use payload::{
    DType, Element, Encoded, Payload, SerdeError, Shared, Tensor, TensorError, TensorLayout, Travels, Wire,
    as_bytes, bytes_of, decode, encode, view_slice, view_str,
};
#[cfg(all(feature = "dlpack", not(loom)))]
pub use payload::{DlPack, DlPackError, dlpack};
#[cfg(not(loom))]
#[doc(hidden)] // for the crates above this one
pub use payload::{
    Scope, ScopePlace, byte_count, check_shape, element_count, from_packed, is_trial, note_record, to_packed,
};
#[cfg(not(loom))]
pub use port::outlet::{AnyOutlet, Outlet, Routes};
#[cfg(not(loom))]
pub use port::payload_probe::{
    CloneablePayload, MovablePayload, PayloadProbe, ShareablePayload, UnmovablePayload, WirePayload,
};
#[cfg(not(loom))]
pub use port::payload_type::PayloadType;
#[cfg(not(loom))]
pub use port::schema::TensorSchema;
#[cfg(not(loom))]
pub use port::value::{AnyValue, Readiness, Value};
#[doc(hidden)]
pub use report::report;
pub use ring::{RingReader, RingWriter, ring, ring_of_one};
#[cfg(not(loom))]
pub use shared::{Bypass, OwnedLoan, SharedReader, SharedSpec, SharedWriter, format};
#[cfg(not(loom))]
pub use wait::berth::Berth;
pub use wait::doorbell::Doorbell;
pub use wait::on_behalf::{OnBehalf, Summons};
#[cfg(not(loom))]
pub use wait::shared_core::Mover;
#[cfg(not(loom))]
pub use wait::spin_budget::SpinBudget;
pub use wait::spin_permit::CorePermit;
#[cfg(not(loom))]
pub use wait::spin_permit::{ends_spinning, may_spin, spinning_cores};
pub use wait::waiting::Waiting;

/// The code of the README, compiled and run as documentation tests.
#[cfg(all(doctest, not(any(loom, miri))))]
#[doc = include_str!("../README.md")]
struct Readme;
