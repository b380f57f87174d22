//! The writing endpoint of a channel.

use std::fmt;
use std::time::Duration;

use super::endpoint_waiter::EndpointWaiter;
use super::loan::{Loan, TensorLoan};
use crate::error::ChannelError;
use crate::fault::Message;
use crate::kind::{AnySink, Sink};
use crate::payload::{Element, Tensor, Wire};

/// The writing endpoint of a channel. Dropping it closes the channel: readers receive the messages that are there, and
/// then [`ChannelError::Closed`].
pub struct Writer<T> {
    pub(super) sink: AnySink<T>,
    pub(super) line: EndpointWaiter,
}

impl<T> fmt::Debug for Writer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

/// A value that was not sent, with the reason.
#[derive(thiserror::Error)]
#[error("{error}")]
pub struct SendError<T> {
    /// The value, unchanged.
    pub value: T,
    /// The reason that the value was not sent.
    pub error: ChannelError,
}

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.error, f)
    }
}

/// The result of a send, with the value that was not sent.
fn or_value<T>(sent: Result<(), ChannelError>, kept: Option<Message<T>>) -> Result<(), SendError<T>> {
    match (sent, kept) {
        (Err(error), Some(Ok(value))) => Err(SendError { value, error }),
        _ => Ok(()),
    }
}

/// A writer in quiet mode. The mode ends with this, also if the caller's iterator or the encoding of a value panics.
struct QuietWriter<'a, T: Wire>(&'a mut Writer<T>);

impl<'a, T: Wire> QuietWriter<'a, T> {
    fn new(writer: &'a mut Writer<T>) -> Self {
        writer.sink.set_quiet(true);
        QuietWriter(writer)
    }
}

impl<T: Wire> Drop for QuietWriter<'_, T> {
    fn drop(&mut self) {
        self.0.sink.set_quiet(false);
    }
}

impl<T: Wire> Writer<T> {
    pub(super) fn new(sink: AnySink<T>, line: EndpointWaiter) -> Self {
        Writer { sink, line }
    }

    /// The number of the next message, counted from 0.
    #[inline]
    pub fn position(&self) -> u64 {
        self.sink.position()
    }

    /// Sends a value; waits for a free slot up to the channel's time limit.
    ///
    /// # Errors
    /// [`SendError`] with the value: [`ChannelError::Timeout`] (nothing has changed; the next attempt may succeed),
    /// [`ChannelError::Poisoned`] if a reader's process has died, [`ChannelError::Closed`] after
    /// [`close`](Self::close), [`ChannelError::TooLarge`], [`ChannelError::Encode`], [`ChannelError::Segment`].
    #[inline]
    pub fn send(&mut self, value: T) -> Result<(), SendError<T>> {
        self.send_within(value, self.line.timeout)
    }

    /// Sends a value as [`send`](Self::send) does, but waits at most `timeout`.
    ///
    /// # Errors
    /// The errors of [`send`](Self::send).
    pub fn send_timeout(&mut self, value: T, timeout: Duration) -> Result<(), SendError<T>> {
        self.send_within(value, Some(timeout))
    }

    #[inline]
    fn send_within(&mut self, value: T, timeout: Option<Duration>) -> Result<(), SendError<T>> {
        match self.sink.try_put(value) {
            None => Ok(()),
            Some(value) => self.send_slowly(value, timeout),
        }
    }

    #[inline(never)]
    fn send_slowly(&mut self, value: T, timeout: Option<Duration>) -> Result<(), SendError<T>> {
        let mut kept = Some(Ok(value));
        let sent = self.wait_until(timeout, |sink| sink.put(&mut kept));
        or_value(sent, kept)
    }

    /// Adds the readers that hold the writer back to a time-out error. Between processes, the line has already added
    /// the peers.
    fn blame(&self, error: ChannelError) -> ChannelError {
        match error {
            ChannelError::Timeout { waited, peers } if peers.is_empty() => ChannelError::Timeout {
                waited,
                peers: self.sink.laggards(),
            },
            error => error,
        }
    }

    /// Sends a value; awaits a free slot, on any executor. The wait has no time limit, but a death ends it.
    ///
    /// # Errors
    /// The errors of [`send`](Self::send).
    pub async fn send_async(&mut self, value: T) -> Result<(), SendError<T>> {
        let mut kept = Some(Ok(value));
        let sent = std::future::poll_fn(|context| {
            let sink = &mut self.sink;
            self.line.poll(context, || Ok(sink.put(&mut kept)?.then_some(())))
        })
        .await;
        or_value(sent, kept)
    }

    /// Sends many values, in order. One call is cheaper than repeated calls of `send`, because sleeping readers are
    /// woken once for each batch that fits into the slots. Readers that poll can receive a value as soon as it is sent.
    ///
    /// # Errors
    /// The errors of [`send`](Self::send), with the faulty value. The values before it are sent, and those after it are
    /// still in `values`.
    pub fn send_all(&mut self, values: &mut impl Iterator<Item = T>) -> Result<(), SendError<T>> {
        let QuietWriter(writer) = &mut QuietWriter::new(self);
        values.try_for_each(|value| {
            let Some(value) = writer.sink.try_put(value) else {
                return Ok(());
            };
            // The slots are full, or the value cannot be sent. The readers must be woken before this thread waits for
            // them.
            writer.sink.set_quiet(false);
            let sent = writer.send_slowly(value, writer.line.timeout);
            writer.sink.set_quiet(true);
            sent
        })
    }

    /// Sends a copy of `value`: between threads a clone, between processes the encoding that every message needs
    /// anyway.
    ///
    /// # Errors
    /// The errors of [`send`](Self::send), without the value.
    pub fn send_ref(&mut self, value: &T) -> Result<(), ChannelError> {
        if !self.sink.encodes() {
            return self.send(value.clone()).map_err(|refused| refused.error);
        }
        match self.sink.put_ref(Ok(value)) {
            Ok(true) => Ok(()),
            _ => self.wait_until(self.line.timeout, |sink| sink.put_ref(Ok(value))),
        }
    }

    /// Sends a value if a slot is free; never waits.
    ///
    /// # Errors
    /// [`SendError`] with the value: [`ChannelError::Full`], and the errors of [`send`](Self::send) except
    /// [`ChannelError::Timeout`].
    pub fn try_send(&mut self, value: T) -> Result<(), SendError<T>> {
        let mut kept = Some(Ok(value));
        let sink = &mut self.sink;
        let sent = self.line.attempt(|| Ok(sink.put(&mut kept)?.then_some(())));
        or_value(sent.and_then(|sent| sent.ok_or(ChannelError::Full)), kept)
    }

    /// Waits until every reader is done with every message, up to the channel's time limit. Call this, for example,
    /// before a writing process ends, because grown messages are lost with it.
    ///
    /// # Errors
    /// [`ChannelError::Timeout`] with the readers that are behind, [`ChannelError::Poisoned`] if a reader's process has
    /// died.
    pub fn flush(&mut self) -> Result<(), ChannelError> {
        self.wait_until(self.line.timeout, Sink::is_drained)
    }

    /// Waits at most `timeout` until `check` returns `true`.
    pub(super) fn wait_until(
        &mut self,
        timeout: Option<Duration>,
        mut check: impl FnMut(&mut AnySink<T>) -> Result<bool, ChannelError>,
    ) -> Result<(), ChannelError> {
        let expected_bytes = self.sink.expected_bytes();
        let sink = &mut self.sink;
        let attempt = || Ok(check(sink)?.then_some(()));
        let waited = self.line.wait(timeout, expected_bytes, attempt);
        waited.map_err(|error| self.blame(error))
    }

    /// Closes the channel: no message follows. Never waits. A second call changes nothing. Later sends are refused with
    /// [`ChannelError::Closed`].
    pub fn close(&mut self) {
        self.sink.close();
    }
}

impl<E: Element> Writer<Vec<E>>
where
    Vec<E>: Wire,
{
    /// Waits for a free slot and lends the memory for `len` numbers in it. [`Loan::publish`] sends the numbers that are
    /// written there, without a copy. At first they are the numbers of an earlier message, or 0.
    ///
    /// Between threads, where values move, the memory is a new `Vec`.
    ///
    /// # Errors
    /// The errors of [`send`](Self::send).
    pub fn reserve(&mut self, len: usize) -> Result<Loan<'_, E>, ChannelError> {
        self.wait_until(self.line.timeout, Sink::has_space)?;
        Loan::of(&mut self.sink, len)
    }
}

impl Writer<Tensor> {
    /// Waits for a free slot and lends the memory for a tensor of this shape in it, row-major. [`TensorLoan::publish`]
    /// sends the elements that are written there, without a copy. At first they are the elements of an earlier message,
    /// or 0.
    ///
    /// ```
    /// use selvedge_channels::{ChannelOptions, Tensor};
    ///
    /// let (mut writer, mut readers) = ChannelOptions::new().threads::<Tensor>()?;
    /// let mut loan = writer.reserve::<f32>(&[2, 3])?;
    /// loan.copy_from_slice(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    /// loan.publish()?;
    /// assert_eq!(readers[0].view()?.get()?.shape(), [2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`send`](Self::send).
    pub fn reserve<E: Element>(&mut self, shape: &[usize]) -> Result<TensorLoan<'_, E>, ChannelError> {
        self.wait_until(self.line.timeout, Sink::has_space)?;
        TensorLoan::of(&mut self.sink, shape)
    }
}
