//! What can go wrong in a channel of tensors on a device.

use std::io;

use crate::device::error::DeviceError;
use crate::device::extraction::NotTaken;
use crate::error::{ChannelError, SegmentError, layouts};
use crate::payload::TensorError;
use crate::payload::TensorLayout;

/// Why a channel of tensors could not be made, written or read. Who fails first is named: a peer that has died is a
/// [`ChannelError::Poisoned`] with its end and its process.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum DeviceChannelError {
    /// What any channel may say: closed, poisoned, late, full, too large, corrupt.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// What a device may say, also that something is on another device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Other tensors than those of the first message, in a channel whose layout is fixed by that. Nothing has changed.
    #[error(
        "the channel's layout is fixed by its first message: expected {}, found {}",
        layouts(expected),
        layouts(found)
    )]
    StaticShape {
        /// The first message's tensors.
        expected: Vec<TensorLayout>,
        /// This message's.
        found: Vec<TensorLayout>,
    },
    /// There is no tensor of that number in the message.
    #[error("there is no tensor {index}: the message has {count}")]
    NoTensor {
        /// The number asked for.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// A tensor of another type or shape than its place.
    #[error("the place is for {expected}, the tensor is {found}")]
    Layout {
        /// What the place was reserved for.
        expected: TensorLayout,
        /// What was to be put there.
        found: TensorLayout,
    },
    /// A channel was opened by the process that made it, which takes ends from what it has.
    #[error("this process made the channel: take its ends from the channel itself, not from its descriptor")]
    OwnChannel,
    /// The device's memory could not be had from the process that made it.
    #[error("the channel's memory could not be had from process {pid}: {what}: {source}")]
    Handover {
        /// The process that made the channel.
        pid: u32,
        /// The step that failed.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

crate::debug_is_report!(DeviceChannelError);

/// For channels of values, of which only some have tensors.
impl From<DeviceChannelError> for ChannelError {
    fn from(error: DeviceChannelError) -> Self {
        match error {
            DeviceChannelError::Channel(error) => error,
            error => ChannelError::Device(error.to_string()),
        }
    }
}

impl From<NotTaken> for DeviceChannelError {
    fn from(error: NotTaken) -> Self {
        match error {
            NotTaken::Device(error) => error.into(),
            NotTaken::Channel(error) => error.into(),
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
