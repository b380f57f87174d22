//! From one device to another: a copy by the driver, which needs neither NCCL nor the right of one device to use the other's
//! memory, and takes the direct way where there is one.
//!
//! The copy runs on a stream of the device it goes to. A stream of the device it comes from is ordered behind it, so that what
//! is dropped on either side outlives it (`DEV-2` counts the streams of one device), and so that it may end there what it
//! began: the slot of a channel is given back on the device that the slot is on.

use super::channel::DeviceChannelError;
use super::error::DeviceError;
use super::extraction::{Of, put_together, take_apart};
use super::gpu::Gpu;
use super::memory::{DeviceMemory, Span};
use super::stream::Stream;
use super::tensor::DeviceTensor;
use crate::error::ChannelError;
use crate::fault_point;
use crate::payload::{Seen, TensorLayout, Wire, survey};

/// Brings tensors of any device of this process to one of them. It enqueues and never waits.
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
    /// A stream of each device that something has come from.
    from: Vec<Stream>,
}

impl Crossing {
    /// To this device.
    ///
    /// # Errors
    /// [`DeviceError::Call`].
    pub fn to(gpu: &Gpu) -> Result<Self, DeviceError> {
        let to = Stream::communication(gpu)?;
        Ok(Crossing { to, from: Vec::new() })
    }

    /// The device that tensors are brought to.
    pub fn gpu(&self) -> &Gpu {
        self.to.gpu()
    }

    /// The tensor on this device: itself where it is there, else a copy, which is ready behind it.
    ///
    /// # Errors
    /// [`DeviceError::Call`], also when there is no memory left.
    pub fn bring(&mut self, tensor: &DeviceTensor) -> Result<DeviceTensor, DeviceError> {
        let id = tensor.gpu().id();
        if id == self.gpu().id() {
            return Ok(tensor.clone());
        }
        let known = self.from.iter().position(|stream| stream.gpu().id() == id);
        let index = match known {
            Some(index) => index,
            None => {
                self.from.push(Stream::communication(tensor.gpu())?);
                self.from.len() - 1
            }
        };
        let Some(from) = self.from.get(index) else {
            return Ok(tensor.clone());
        };
        from.order_after(tensor.ready())?;
        self.copy(from, tensor.layout().clone(), tensor.span()?)
    }

    /// A copy of what `from`, a stream of the device it is on, may read by now. `from` goes on when the copy is there.
    pub(super) fn copy(
        &self,
        from: &Stream,
        layout: TensorLayout,
        span: Span<'_>,
    ) -> Result<DeviceTensor, DeviceError> {
        let mut memory = DeviceMemory::new(self.gpu(), layout.len_bytes())?;
        if !fault_point::skips("crossing: order after the source") {
            self.to.order_after(&from.mark()?)?;
        }
        self.to
            .copy_across(memory.span_mut(0, layout.len_bytes())?, span)?;
        let copy = DeviceTensor::written(memory, layout, &self.to)?;
        if !fault_point::skips("crossing: order the source after") {
            from.order_after(copy.ready())?;
        }
        Ok(copy)
    }

    /// The value with its tensors on this device; `None` where all of them are.
    pub(crate) fn bring_value<T: Wire>(&mut self, value: &T) -> Result<Option<T>, ChannelError> {
        // Looked at before anything is encoded: as a rule all are here.
        let here = self.gpu().index();
        let elsewhere = |(_, device): &Seen| device.is_some_and(|device| device != here);
        if !survey(value)?.iter().any(elsewhere) {
            return Ok(None);
        }
        let (bytes, tensors) = take_apart(value, Of::Any).map_err(DeviceChannelError::from)?;
        let brought: Result<Vec<_>, _> = tensors.iter().map(|tensor| self.bring(tensor)).collect();
        let brought = brought.map_err(DeviceChannelError::from)?;
        put_together(&bytes, brought).map(Some)
    }
}
