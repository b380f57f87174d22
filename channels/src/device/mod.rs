//! Devices of NVIDIA: their memory, streams and events, found at run time (feature `cuda`).
//!
//! Nothing is linked: programs built with the feature start on machines without a driver, and say what is missing and why.
//! Every function of the driver is called through a pointer that was looked up, and every result is a number until it has
//! been checked, so that a newer driver's codes are errors like any other.
//!
//! - `library`, `calls`, `abi`: the driver's functions, all looked up before the first is called; [`probe`]: what there is.
//! - `handles`, `allocation`: the same calls, sound; with those two, all that is unsafe here.
//! - [`Gpu`], [`Stream`], [`Event`], [`DeviceMemory`]: a device and what is enqueued on it. `retired`: what is dropped while
//!   the device is busy with it; `host_call`: how the device wakes the host.
//! - [`sweep`](fn@sweep): gives back what was dropped early.
//! - `words`: points of streams that outlive their process.
//! - [`TensorLayout`], [`DeviceTensor`]: a tensor that lies on a device, and the event that makes it ready. `extraction`: one
//!   inside another value.
//! - [`DeviceChannelOptions`] and what it makes: tensors from one writer to N readers, who never leave the device; `README.md`
//!   in this folder has the protocol.

mod abi;
mod calls;
mod library;
mod probe;

mod allocation;
mod handles;

mod error;
mod event;
mod gpu;
mod host_call;
mod memory;
mod retired;
mod stream;
mod sweep;
mod words;

mod extraction;
mod layout;
mod tensor;

mod channel;

pub use calls::DRIVER_FUNCTIONS;
pub use channel::{
    DeviceChannelError, DeviceChannelOptions, DeviceDescriptor, DeviceLoan, DeviceReader, DeviceView,
    DeviceWriter, SharedDeviceChannel, Signals,
};
pub use error::{DeviceError, DeviceId};
pub use event::Event;
pub use gpu::Gpu;
pub use layout::{DIMENSIONS_MAX, TensorLayout};
pub use library::{Library, Unavailable};
pub use memory::{DeviceMemory, Download, Span, SpanMut};
pub use probe::{Device, Driver, probe};
pub use stream::Stream;
pub use sweep::sweep;
pub use tensor::DeviceTensor;
