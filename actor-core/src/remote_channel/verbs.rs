//! How a runtime makes a channel.

use selvedge_channels::Wire;

use super::channel_type::RemoteChannel;
use super::error::RemoteChannelError;
use crate::call::remote_error::RemoteError;
use crate::home::handles::Worker;
use crate::runtime::Runtime;

impl Runtime {
    /// Makes a channel in this process that stores `capacity` values. With a capacity of 0, a put waits for a taker.
    ///
    /// # Errors
    /// [`RemoteChannelError::NotMade`] if the runtime was shut down.
    pub fn channel<T: Wire>(&self, capacity: usize) -> Result<RemoteChannel<T>, RemoteChannelError> {
        let remote = self.remote();
        if !self.is_open() {
            let (process, error) = (remote.names.name(remote.me()), Box::new(RemoteError::Shutdown));
            return Err(RemoteChannelError::NotMade { process, error });
        }
        Ok(RemoteChannel::of(remote.channels().make(capacity)))
    }
}

impl Worker {
    /// Makes a channel in this worker that stores `capacity` values: [`Runtime::channel`], with this worker as the home.
    /// Returns at once, before the worker has heard of the channel.
    ///
    /// # Errors
    /// [`RemoteChannelError::NotMade`] if the worker is dead or cannot be told.
    pub fn channel<T: Wire>(&self, capacity: usize) -> Result<RemoteChannel<T>, RemoteChannelError> {
        let (remote, process) = (self.runtime().remote(), self.process());
        let made = match self.runtime().is_open() {
            true => remote.find(process).and_then(|peer| {
                let made = remote.channels().make_at(peer, capacity);
                made.map_err(|error| remote.unsaid(error))
            }),
            false => Err(RemoteError::Shutdown),
        };
        made.map(RemoteChannel::of).map_err(|error| {
            let (process, error) = (remote.names.name(process), Box::new(error));
            RemoteChannelError::NotMade { process, error }
        })
    }
}
