//! Copies from one device to another.
//!
//! The driver does the copy. It needs neither NCCL nor access of one device to the memory of the other, and it takes
//! the direct path between the devices if there is one.
//!
//! The copy runs on a stream of the destination device. A stream of the source device is ordered behind the copy, for
//! two reasons. Memory that is dropped on either side is released only after the copy (`DEV-2` covers the streams of
//! one device). And the source device can finish what it began: the slot of a channel is released on the device that
//! holds the slot.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::channel::DeviceChannelError;
use super::error::{DeviceError, DeviceId};
use super::extraction::{Of, put_together, take_apart};
use super::gpu::Gpu;
use super::memory::{DeviceMemory, Span};
use super::stream::Stream;
use super::tensor::DeviceTensor;
use crate::error::ChannelError;
use crate::fault_point;
use crate::payload::{Seen, TensorLayout, Wire, survey};

/// Copies tensors from any device of this process to one device. It enqueues the copies and never waits.
///
/// ```
/// use selvedge_channels::device::{Crossing, DeviceTensor, Gpu, Stream};
/// use selvedge_channels::Tensor;
///
/// let (Ok(one), Ok(other)) = (Gpu::open(0), Gpu::open(1)) else { return Ok(()) };
/// let tensor = DeviceTensor::upload(&Stream::compute(&one)?, &Tensor::from_slice(&[1.0_f32], &[1])?)?;
/// let brought = Crossing::to(&other)?.bring(&tensor)?;
/// assert_eq!(brought.gpu().id(), other.id());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Crossing {
    to: Stream,
    /// One stream for each device from which a tensor has been copied.
    from: HashMap<DeviceId, Stream>,
}

impl Crossing {
    /// Creates a `Crossing` to this device.
    ///
    /// # Errors
    /// [`DeviceError::Call`].
    pub fn to(gpu: &Gpu) -> Result<Self, DeviceError> {
        let to = Stream::communication(gpu)?;
        Ok(Crossing {
            to,
            from: HashMap::new(),
        })
    }

    /// The destination device.
    pub fn gpu(&self) -> &Gpu {
        self.to.gpu()
    }

    /// Returns the tensor on the destination device: the tensor itself if it is there already, else a copy with its own
    /// `ready` event.
    ///
    /// # Errors
    /// [`DeviceError::Call`], also when there is no memory left.
    pub fn bring(&mut self, tensor: &DeviceTensor) -> Result<DeviceTensor, DeviceError> {
        let id = tensor.gpu().id();
        if id == self.gpu().id() {
            return Ok(tensor.clone());
        }
        let from = match self.from.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Stream::communication(tensor.gpu())?),
        };
        from.order_after(tensor.ready())?;
        copy(from, &self.to, tensor.layout().clone(), tensor.span()?)
    }

    /// Enqueues a copy to the destination device of the bytes at `span`, which `from`, a stream of the source device, may
    /// read by now. Operations enqueued on `from` afterwards run after the copy.
    pub(super) fn copy(
        &self,
        from: &Stream,
        layout: TensorLayout,
        span: Span<'_>,
    ) -> Result<DeviceTensor, DeviceError> {
        copy(from, &self.to, layout, span)
    }

    /// Returns the value with all its tensors on the destination device, or `None` if they are all there already.
    pub(crate) fn bring_value<T: Wire>(&mut self, value: &T) -> Result<Option<T>, ChannelError> {
        // The survey comes before any encoding: usually all tensors are on this device.
        let here = self.gpu().index();
        let elsewhere = |(_, device): &Seen| device.is_some_and(|device| device != here);
        if !survey(value)?.iter().any(elsewhere) {
            return Ok(None);
        }
        let (bytes, tensors) = take_apart(value, Of::Any)?;
        let brought: Result<Vec<_>, _> = tensors.iter().map(|tensor| self.bring(tensor)).collect();
        let brought = brought.map_err(DeviceChannelError::from)?;
        put_together(&bytes, brought).map(Some)
    }
}

/// Enqueues a copy on `to`, ordered behind `from`; and orders `from` behind the copy.
fn copy(
    from: &Stream,
    to: &Stream,
    layout: TensorLayout,
    span: Span<'_>,
) -> Result<DeviceTensor, DeviceError> {
    let mut memory = DeviceMemory::new(to.gpu(), layout.len_bytes())?;
    if !fault_point::skips("crossing: order after the source") {
        to.order_after(&from.mark()?)?;
    }
    to.copy_across(memory.span_mut(0, layout.len_bytes())?, span)?;
    let copy = DeviceTensor::written(memory, layout, to)?;
    if !fault_point::skips("crossing: order the source after") {
        from.order_after(copy.ready())?;
    }
    Ok(copy)
}
