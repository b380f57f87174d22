//! Devices of NVIDIA: their memory, streams and events, found at run time (feature `cuda`).
//!
//! Nothing is linked: programs built with the feature start on machines without a driver, and say what is missing and why.
//! Every function of the driver is called through a pointer that was looked up, and every result is a number until it has
//! been checked, so that a newer driver's codes are errors like any other.
//!
//! - `library`, `calls`, `abi`: the driver's functions, all looked up before the first is called; [`probe`]: what there is.
//! - `handles`, `allocation`: the same calls, sound. What else is unsafe says so at its head: memory that a device writes, what
//!   other libraries hand over, and the words and calls of the host that a device reaches.
//! - [`Gpu`], [`Stream`], [`Event`], [`DeviceMemory`]: a device and what is enqueued on it. `retired`: what is dropped while
//!   the device is busy with it; `host_call`: how the device wakes the host.
//! - [`sweep`](fn@sweep): gives back what was dropped early.
//! - `words`: points of streams that outlive their process.
//! - [`TensorLayout`], [`DeviceTensor`]: a tensor that lies on a device, and the event that makes it ready. `extraction`: one
//!   inside another value. [`Crossing`]: from one device to another.
//! - [`DeviceChannelOptions`] and what it makes: tensors from one writer to N readers, who never leave the device; `README.md`
//!   in this folder has the protocol.
//!
//! ```
//! use std::time::Duration;
//! use selvedge_channels::device::{DeviceChannelOptions, Gpu, Stream, TensorLayout};
//! use selvedge_channels::{DType, Tensor};
//!
//! let Ok(gpu) = Gpu::open(0) else { return Ok(()) };
//! let (mut writer, mut readers) = DeviceChannelOptions::new(1 << 20).threads(&gpu)?;
//! let (writes, reads) = (Stream::compute(&gpu)?, Stream::compute(&gpu)?);
//!
//! let mut loan = writer.reserve(&writes, &[TensorLayout::new(DType::F32, [2])?])?;
//! loan.upload(0, &Tensor::from_slice(&[1.0_f32, 2.0], &[2])?)?; // or kernels on `writes`, at `loan.span(0)?.address()`
//! loan.publish()?;
//!
//! let mut view = readers[0].recv(&reads)?.map_err(|fault| fault.to_string())?;
//! // Kernels on `reads` may read at `view.span(0)?.address()` from here on; the host waits only where it wants to look.
//! assert_eq!(view.download(0, Duration::from_secs(10))?.as_slice::<f32>()?, [1.0, 2.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod abi;
mod calls;
mod library;
mod probe;

mod allocation;
mod handles;

mod error;
mod event;
mod foreign;
mod gpu;
mod host_call;
mod memory;
mod retired;
mod staging;
mod stream;
mod sweep;
mod words;

mod crossing;
#[cfg(feature = "dlpack")]
mod dlpack;
mod extraction;
mod tensor;

pub(crate) mod aside;
mod channel;

pub use crate::payload::{DIMENSIONS_MAX, TensorLayout};
pub use calls::DRIVER_FUNCTIONS;
pub use channel::{
    DeviceChannelError, DeviceChannelOptions, DeviceDescriptor, DeviceLoan, DeviceReader, DeviceView,
    DeviceWriter, SharedDeviceChannel, Signals,
};
pub use crossing::Crossing;
#[cfg(feature = "dlpack")]
pub use dlpack::DeviceDlPack;
pub use error::{DeviceError, DeviceId};
pub use event::Event;
pub use gpu::Gpu;
pub use library::{Library, Unavailable};
pub use memory::{DeviceMemory, Download, Span, SpanMut};
pub use probe::{Ability, Device, Driver, probe};
pub use stream::Stream;
pub use sweep::sweep;
pub use tensor::DeviceTensor;
