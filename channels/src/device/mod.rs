//! NVIDIA devices: their memory, streams and events, with a driver that is found at run time (feature `cuda`).
//!
//! The driver is not linked. Programs built with the feature start on machines without a driver and report what is
//! missing and why. Every function of the driver is called through a pointer that was looked up. Every result is a
//! plain number until it has been checked, so a code of a newer driver is an error like any other.
//!
//! - `library`, `calls`: the functions of the driver, all looked up before the first call. [`probe`]: the driver and the
//!   devices of this machine.
//! - `handles`, `allocation`, `pinned`, `copy`: sound wrappers of these calls. The other modules with unsafe code say so in their first
//!   lines: memory that a device writes, objects that other libraries pass in, and host memory and host functions that
//!   a device accesses.
//! - [`Gpu`], [`Stream`], [`Event`], [`DeviceMemory`]: a device and the work that is enqueued on it. `reclaimer`:
//!   resources that are dropped while the device still uses them. `host_call`: wake-ups of the host by the device.
//! - [`reclaim`](fn@reclaim): releases resources whose release was deferred.
//! - [`TensorLayout`], [`DeviceTensor`]: a tensor on a device, and the event that marks it as ready. `extraction`:
//!   device tensors inside other values. [`Crossing`]: copies from one device to another.
//! - [`DeviceChannelOptions`] and the channels that it creates: tensors go from one writer to N readers and never leave
//!   the device. `README.md` in this folder describes the protocol.
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
//! // Kernels on `reads` may read at `view.span(0)?.address()` from here on; the host waits for a download only.
//! assert_eq!(view.download(0, Duration::from_secs(10))?.as_slice::<f32>()?, [1.0, 2.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod calls;
mod library;
mod probe;

mod allocation;
mod copy;
mod handles;
mod pinned;

mod error;
mod event;
mod foreign;
mod gpu;
mod host_call;
mod memory;
mod reclaim;
mod reclaimer;
mod stream;
mod transfer;

mod crossing;
#[cfg(feature = "dlpack")]
mod dlpack;
mod extraction;
mod tensor;

mod channel;
mod out_of_band;

// All that channels of values use of devices, together with `Gpu` and `Crossing`.
pub(crate) use out_of_band::{OutOfBandReader, OutOfBandValue, OutOfBandWriter, explained, is_of_tensors};

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
pub use memory::{DeviceMemory, Span, SpanMut};
pub use probe::{Ability, Device, Driver, probe};
pub use reclaim::reclaim;
pub use stream::Stream;
pub use tensor::DeviceTensor;
pub use transfer::Download;
