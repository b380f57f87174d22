//! Loops over the values of a channel.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use selvedge_channels::Wire;
use selvedge_objects::channel::Outcome;

use super::channel_type::RemoteChannel;
use super::error::RemoteChannelError;
use super::operation::ChannelOperation;
use super::value::SharedValue;

/// A loop over the values of a channel, made by [`RemoteChannel::iter`].
pub struct ChannelIter<T> {
    channel: RemoteChannel<T>,
    /// The take of the value of this step, which the next step acknowledges.
    last: Option<ChannelOperation>,
    is_over: bool,
}

impl<T> fmt::Debug for ChannelIter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ChannelIter").field(&self.channel).finish()
    }
}

impl<T> ChannelIter<T> {
    /// Acknowledges the value of the last step now: it does not go back any more.
    pub fn acknowledge(&mut self) {
        if let Some(last) = self.last.take() {
            last.acknowledge();
        }
    }
}

impl<T: Wire> ChannelIter<T> {
    pub(super) fn new(channel: RemoteChannel<T>) -> Self {
        ChannelIter {
            channel,
            last: None,
            is_over: false,
        }
    }

    /// Takes the next value like `next`, and waits at most `timeout`. After [`RemoteChannelError::Timeout`] the loop goes on.
    pub fn next_timeout(&mut self, timeout: Duration) -> Option<Result<T, RemoteChannelError>> {
        self.step(Some(timeout))
    }

    fn step(&mut self, timeout: Option<Duration>) -> Option<Result<T, RemoteChannelError>> {
        if self.is_over {
            return None;
        }
        self.acknowledge();
        let taken = self.channel.asked_to_take(timeout);
        self.item(taken)
    }

    /// The item of a step. A value that cannot be read counts as taken, whether or not the loop goes on.
    fn item(
        &mut self,
        taken: Result<(ChannelOperation, Outcome<SharedValue>), RemoteChannelError>,
    ) -> Option<Result<T, RemoteChannelError>> {
        let (operation, outcome) = match taken {
            Ok(taken) => taken,
            Err(error) => {
                self.is_over = !matches!(
                    error,
                    RemoteChannelError::Unreadable { .. } | RemoteChannelError::Timeout { .. }
                );
                return (!error.is_closed()).then_some(Err(error));
            }
        };
        let value = self.channel.value_of(outcome);
        let value = value.and_then(|value| self.channel.read(value));
        match &value {
            Ok(_) => self.last = Some(operation),
            // No other taker could read it.
            Err(_) => operation.acknowledge(),
        }
        Some(value)
    }
}

impl<T: Wire> Iterator for ChannelIter<T> {
    type Item = Result<T, RemoteChannelError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(None)
    }
}

/// A loop over the values of a channel as a stream, made by [`RemoteChannel::stream`].
pub struct ChannelStream<T> {
    iter: ChannelIter<T>,
    /// The take that is not answered.
    open: Option<ChannelOperation>,
}

impl<T> fmt::Debug for ChannelStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ChannelStream").field(&self.iter.channel).finish()
    }
}

impl<T> ChannelStream<T> {
    /// Acknowledges the value of the last step now: it does not go back any more.
    pub fn acknowledge(&mut self) {
        self.iter.acknowledge();
    }
}

impl<T: Wire> ChannelStream<T> {
    pub(super) fn new(channel: RemoteChannel<T>) -> Self {
        ChannelStream {
            iter: ChannelIter::new(channel),
            open: None,
        }
    }
}

impl<T: Wire> Stream for ChannelStream<T> {
    type Item = Result<T, RemoteChannelError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.iter.is_over {
            return Poll::Ready(None);
        }
        let begun = match this.open.take() {
            Some(open) => Ok(open),
            None => {
                this.iter.acknowledge();
                this.iter.channel.taking()
            }
        };
        let mut operation = match begun {
            Ok(operation) => operation,
            Err(error) => return Poll::Ready(this.iter.item(Err(error))),
        };
        let Poll::Ready(outcome) = Pin::new(&mut operation).poll(context) else {
            this.open = Some(operation);
            return Poll::Pending;
        };
        let taken = outcome.map(|outcome| (operation, outcome)).map_err(Into::into);
        Poll::Ready(this.iter.item(taken))
    }
}
