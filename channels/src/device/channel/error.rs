//! Errors of channels of tensors.

use std::io;

use crate::device::error::DeviceError;
use crate::error::{ChannelError, SegmentError, layouts};
use crate::payload::TensorError;
use crate::payload::TensorLayout;

/// The reason why a channel of tensors could not be created, written or read. The first failure is named: the death of
/// a peer is a [`ChannelError::Poisoned`] with its endpoint and its process.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum DeviceChannelError {
    /// An error that any channel may report: closed, poisoned, timed out, full, too large, corrupt.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// An error of a device, also if an object is on another device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The layouts differ from those of the first message, in a channel with a static shape. Nothing has changed.
    #[error(
        "the channel's layout is fixed by its first message: expected {}, found {}",
        layouts(expected),
        layouts(found)
    )]
    StaticShape {
        /// The layouts of the first message.
        expected: Vec<TensorLayout>,
        /// The layouts of this message.
        found: Vec<TensorLayout>,
    },
    /// The message has no tensor with the requested number.
    #[error("there is no tensor {index}: the message has {count}")]
    NoTensor {
        /// The requested number.
        index: usize,
        /// The number of tensors.
        count: usize,
    },
    /// The tensor has another type or shape than its place in the slot.
    #[error("the place is for {expected}, the tensor is {found}")]
    Layout {
        /// The layout for which the place was reserved.
        expected: TensorLayout,
        /// The layout of the tensor.
        found: TensorLayout,
    },
    /// A process opened a channel that it has created itself. It must take endpoints from its own
    /// `SharedDeviceChannel`.
    #[error("this process made the channel: take its ends from the channel itself, not from its descriptor")]
    OwnChannel,
    /// The device memory could not be obtained from the process that created the channel.
    #[error("the channel's memory could not be had from process {pid}: {what}: {error}")]
    Handover {
        /// The process that created the channel.
        pid: u32,
        /// The step that failed.
        what: &'static str,
        /// The error of the system.
        error: io::Error,
    },
}

crate::debug_is_report!(DeviceChannelError);

/// The conversion for channels of values, of which only some carry tensors.
impl From<DeviceChannelError> for ChannelError {
    fn from(error: DeviceChannelError) -> Self {
        match error {
            DeviceChannelError::Channel(error) => error,
            error => ChannelError::Device(error.to_string()),
        }
    }
}

impl From<SegmentError> for DeviceChannelError {
    fn from(error: SegmentError) -> Self {
        DeviceChannelError::Channel(error.into())
    }
}

impl From<TensorError> for DeviceChannelError {
    fn from(error: TensorError) -> Self {
        DeviceChannelError::Device(error.into())
    }
}
