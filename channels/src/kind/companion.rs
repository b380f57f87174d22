//! Companions: what travels beside a channel that encodes its values, for parts that no encoding can carry, such as
//! tensors on a device. Channels and ports know companions only by these traits.

use std::any::Any;

use crate::error::ChannelError;
use crate::shared::{SharedReader, SharedWriter};

/// The companion of a reading end.
pub trait SourceCompanion<T>: Send {
    /// Receives the parts of the value in the next message of `reader`, whose contents are `bytes`. Called once for each
    /// message.
    ///
    /// # Errors
    /// The errors of the channel. [`ChannelError::loses_value`] tells whether only this value is lost.
    fn receive(
        &mut self,
        reader: &SharedReader,
        bytes: &[u8],
    ) -> Result<Box<dyn Accompanied<T>>, ChannelError>;

    /// Whether a message that was not received must not be passed.
    fn needs_all(&self) -> bool {
        false
    }

    /// The companion itself, for code that knows its type.
    fn as_any(&mut self) -> &mut dyn Any;
}

/// A value whose parts have been received by a companion. It is assembled where it is read, because that runs user code.
/// `bytes` are the contents of its message, which stay in place until the value is dropped.
pub trait Accompanied<T>: Send {
    /// The value, assembled at the first call.
    ///
    /// # Errors
    /// [`ChannelError::Decode`], and the errors of the companion.
    fn get(&self, bytes: &[u8]) -> Result<&T, ChannelError>;

    /// A copy of the value.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    fn copy(&self, bytes: &[u8]) -> Result<T, ChannelError>;

    /// Takes the value out.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    fn take(&mut self, bytes: &[u8]) -> Result<T, ChannelError>;
}

/// The companion of a writing end.
pub trait SinkCompanion<T>: Send {
    /// Sends a value to `channel`, and its parts beside it. Returns `false` if no slot is free.
    ///
    /// # Errors
    /// The errors of a write to the shared channel.
    fn put(&mut self, channel: &mut SharedWriter, value: &T) -> Result<bool, ChannelError>;

    /// The end of `channel` is about to be dropped.
    fn leave(&mut self, _channel: &SharedWriter) {}
}
