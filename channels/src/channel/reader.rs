//! The reading endpoint of a channel.

use std::fmt;
use std::time::Duration;

use super::endpoint_waiter::EndpointWaiter;
use super::view::View;
use crate::error::ChannelError;
use crate::kind::{AnySource, Arrival, Source};
use crate::payload::Wire;

/// A reading endpoint of a channel. It sees every message, in order. Dropping it releases all messages, so that it
/// never holds the writer back.
pub struct Reader<T> {
    pub(super) source: AnySource<T>,
    pub(super) line: EndpointWaiter,
}

impl<T> fmt::Debug for Reader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

impl<T: Wire> Reader<T> {
    pub(super) fn new(source: AnySource<T>, line: EndpointWaiter) -> Self {
        Reader { source, line }
    }

    /// The number of the next message, counted from 0.
    #[inline]
    pub fn position(&self) -> u64 {
        self.source.position()
    }

    /// Waits until the next message has arrived.
    pub(super) fn arrive(&mut self, timeout: Option<Duration>) -> Result<(), ChannelError> {
        let expected_bytes = self.source.expected_bytes();
        let source = &mut self.source;
        self.line.wait(timeout, expected_bytes, || has_arrived(source))
    }

    /// Takes the message that has arrived, and passes it.
    #[inline]
    fn take(&mut self) -> Result<T, ChannelError> {
        self.source.take().inspect_err(|_| self.pass())
    }

    /// Passes the message that has arrived, even if it could not be taken.
    pub(super) fn pass(&mut self) {
        // The message has arrived, so it can be passed. The next read returns any error of the channel.
        let _ = self.source.release();
    }

    /// Receives the next message; waits for it up to the channel's time limit.
    ///
    /// # Errors
    /// [`ChannelError::Timeout`] (nothing has changed; the next attempt may succeed), [`ChannelError::Closed`] if the
    /// writer has closed the channel, [`ChannelError::Poisoned`] if the writer's process has died; the last two only
    /// after the messages that are there. [`ChannelError::Decode`] if the bytes are no `T`; the next call receives the
    /// next message.
    #[inline]
    pub fn recv(&mut self) -> Result<T, ChannelError> {
        self.recv_within(self.line.timeout)
    }

    #[inline]
    fn recv_within(&mut self, timeout: Option<Duration>) -> Result<T, ChannelError> {
        match self.source.try_next() {
            Some(value) => Ok(value),
            None => self.recv_slowly(timeout),
        }
    }

    #[inline(never)]
    fn recv_slowly(&mut self, timeout: Option<Duration>) -> Result<T, ChannelError> {
        self.arrive(timeout)?;
        self.take()
    }

    /// Receives the next message, awaited on any executor. The wait has no time limit, but a death ends it. Dropping
    /// the future changes nothing.
    ///
    /// # Errors
    /// The errors of [`recv`](Self::recv).
    pub async fn recv_async(&mut self) -> Result<T, ChannelError> {
        std::future::poll_fn(|context| {
            let source = &mut self.source;
            self.line.poll(context, || has_arrived(source))
        })
        .await?;
        self.take()
    }

    /// Receives the next message as [`recv`](Self::recv) does, but waits at most `timeout`.
    ///
    /// # Errors
    /// The errors of [`recv`](Self::recv).
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<T, ChannelError> {
        self.recv_within(Some(timeout))
    }

    /// Receives the next message if it has arrived; never waits.
    ///
    /// # Errors
    /// The errors of [`recv`](Self::recv), except [`ChannelError::Timeout`].
    #[inline]
    pub fn try_recv(&mut self) -> Result<Option<T>, ChannelError> {
        if let Some(value) = self.source.try_next() {
            return Ok(Some(value));
        }
        let source = &mut self.source;
        match self.line.attempt(|| has_arrived(source))? {
            Some(()) => self.take().map(Some),
            None => Ok(None),
        }
    }

    /// Waits for a message, then appends all messages that are there, at most `max`, to `out`. Returns the number of
    /// messages. One call is cheaper than repeated calls of `recv`, because a writer that waits for space is woken
    /// once.
    ///
    /// # Errors
    /// The errors of [`recv`](Self::recv). The messages before the faulty one are in `out`.
    pub fn recv_many(&mut self, max: usize, out: &mut Vec<T>) -> Result<usize, ChannelError> {
        if max == 0 {
            return Ok(0);
        }
        self.arrive(self.line.timeout)?;
        let before = out.len();
        let drained = QuietReader::new(self).0.drain(max, out);
        let count = out.len() - before;
        match drained {
            // The next read finds no message before the end of the channel, and returns that end as its error.
            Err(ChannelError::Closed | ChannelError::Poisoned { .. }) if count > 0 => Ok(count),
            drained => drained.map(|()| count),
        }
    }

    fn drain(&mut self, max: usize, out: &mut Vec<T>) -> Result<(), ChannelError> {
        for _ in 0..max {
            match self.try_recv()? {
                Some(value) => out.push(value),
                None => break,
            }
        }
        Ok(())
    }

    /// Waits for the next message and lends it in place. Its slot is free again when the view is dropped.
    ///
    /// # Errors
    /// The errors of [`recv`](Self::recv).
    pub fn view(&mut self) -> Result<View<'_, T>, ChannelError> {
        self.arrive(self.line.timeout)?;
        Ok(View::new(self))
    }

    /// Lends the next message as [`view`](Self::view) does, but waits at most `timeout`.
    ///
    /// # Errors
    /// The errors of [`recv`](Self::recv).
    pub fn view_timeout(&mut self, timeout: Duration) -> Result<View<'_, T>, ChannelError> {
        self.arrive(Some(timeout))?;
        Ok(View::new(self))
    }

    /// Waits for the next message and passes it without decoding it.
    ///
    /// # Errors
    /// The errors of [`recv`](Self::recv).
    pub fn skip(&mut self) -> Result<(), ChannelError> {
        self.view().map(drop)
    }

    /// An iterator over the messages until the writer is done. Any error except [`ChannelError::Decode`] is the last
    /// item.
    pub fn iter(&mut self) -> impl Iterator<Item = Result<T, ChannelError>> + '_ {
        let mut ended = false;
        std::iter::from_fn(move || {
            if ended {
                return None;
            }
            match self.recv() {
                Err(ChannelError::Closed) => None,
                received => {
                    ended = !matches!(received, Ok(_) | Err(ChannelError::Decode(_)));
                    Some(received)
                }
            }
        })
    }
}

/// A reader in quiet mode. The mode ends with this, also if the decoding of a value panics.
struct QuietReader<'a, T: Wire>(&'a mut Reader<T>);

impl<'a, T: Wire> QuietReader<'a, T> {
    fn new(reader: &'a mut Reader<T>) -> Self {
        reader.source.set_quiet(true);
        QuietReader(reader)
    }
}

impl<T: Wire> Drop for QuietReader<'_, T> {
    fn drop(&mut self) {
        self.0.source.set_quiet(false);
    }
}

/// Looks whether the next message has arrived.
fn has_arrived<T: Wire>(source: &mut AnySource<T>) -> Result<Option<()>, ChannelError> {
    Ok((source.receive()? != Arrival::Nothing).then_some(()))
}
