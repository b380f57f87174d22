//! The writing endpoint of a channel.

use std::fmt;
use std::time::Duration;

use super::endpoint_waiter::EndpointWaiter;
use super::loan::Loan;
use super::tensor_loan::TensorLoan;
use crate::error::ChannelError;
use crate::payload::{Element, Tensor, Wire};
use crate::ring::RingWriter;
use crate::shared::SharedWriter;

#[expect(
    clippy::large_enum_variant,
    reason = "one per channel; a box would cost a look on every write"
)]
pub(super) enum WriteEnd<T> {
    Ring(RingWriter<T>),
    Shared(SharedWriter),
}

/// The writing endpoint of a channel. Dropping it closes the channel: readers receive the messages that are there, and
/// then [`ChannelError::Closed`].
pub struct Writer<T> {
    pub(super) end: WriteEnd<T>,
    pub(super) line: EndpointWaiter,
}

impl<T> fmt::Debug for Writer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

/// A value that was not sent, with the reason.
pub struct SendError<T> {
    /// The value, unchanged.
    pub value: T,
    /// The reason that the value was not sent.
    pub error: ChannelError,
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.error, f)
    }
}

impl<T> std::error::Error for SendError<T> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl<T: Wire> WriteEnd<T> {
    /// Sends `value` on the fast path, else returns it. Call `attempt` to learn why.
    #[inline]
    fn at_once(&mut self, value: T) -> Option<T> {
        match self {
            WriteEnd::Ring(ring) => ring.send(value),
            WriteEnd::Shared(shared) => shared.send(value),
        }
    }

    /// Sends the value in `value`, if a slot is free.
    #[inline]
    fn attempt(&mut self, value: &mut Option<T>) -> Result<Option<()>, ChannelError> {
        match self {
            WriteEnd::Ring(ring) => {
                let Some(message) = value.take() else {
                    return Ok(Some(()));
                };
                match ring.try_write(Ok(message)) {
                    Ok(()) => Ok(Some(())),
                    Err(back) => {
                        *value = back.ok();
                        check_open(ring).map(|()| None)
                    }
                }
            }
            WriteEnd::Shared(shared) => match value {
                None => Ok(Some(())),
                Some(kept) => Ok(shared.try_write(kept)?.then_some(())),
            },
        }
    }

    /// The size in bytes of the messages that readers are busy with; 0 if values move by pointer.
    #[inline]
    fn expected_bytes(&self) -> usize {
        match self {
            WriteEnd::Ring(_) => 0,
            WriteEnd::Shared(shared) => shared.last_bytes(),
        }
    }

    fn set_quiet(&mut self, quiet: bool) {
        match self {
            WriteEnd::Ring(ring) => ring.set_quiet(quiet),
            WriteEnd::Shared(shared) => shared.set_quiet(quiet),
        }
    }

    pub(super) fn has_space(&mut self) -> Result<Option<()>, ChannelError> {
        let space = match self {
            WriteEnd::Ring(ring) => {
                check_open(ring)?;
                ring.has_space()
            }
            WriteEnd::Shared(shared) => shared.has_space()?,
        };
        Ok(space.then_some(()))
    }

    pub(super) fn is_drained(&mut self) -> Result<Option<()>, ChannelError> {
        let drained = match self {
            WriteEnd::Ring(ring) => ring.is_drained(),
            WriteEnd::Shared(shared) => shared.is_drained()?,
        };
        Ok(drained.then_some(()))
    }
}

/// Returns [`ChannelError::Closed`] if the ring was closed.
fn check_open<T>(ring: &RingWriter<T>) -> Result<(), ChannelError> {
    if ring.is_closed() {
        return Err(ChannelError::Closed);
    }
    Ok(())
}

impl<T: Wire> Writer<T> {
    pub(super) fn ring(writer: RingWriter<T>, line: EndpointWaiter) -> Self {
        let end = WriteEnd::Ring(writer);
        Writer { end, line }
    }

    pub(super) fn shared(writer: SharedWriter, line: EndpointWaiter) -> Self {
        let end = WriteEnd::Shared(writer);
        Writer { end, line }
    }

    /// The number of the next message, counted from 0.
    #[inline]
    pub fn position(&self) -> u64 {
        match &self.end {
            WriteEnd::Ring(ring) => ring.position(),
            WriteEnd::Shared(shared) => shared.position(),
        }
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
        match self.end.at_once(value) {
            None => Ok(()),
            Some(value) => self.send_slowly(value, timeout),
        }
    }

    #[inline(never)]
    fn send_slowly(&mut self, value: T, timeout: Option<Duration>) -> Result<(), SendError<T>> {
        let mut kept = Some(value);
        let expected_bytes = self.end.expected_bytes();
        let end = &mut self.end;
        let sent = self.line.wait(timeout, expected_bytes, || end.attempt(&mut kept));
        match (sent, kept) {
            (Err(error), Some(value)) => Err(SendError {
                value,
                error: self.blame(error),
            }),
            _ => Ok(()),
        }
    }

    /// Adds the readers that hold the writer back to a time-out error. Between processes, the line has already added
    /// the peers.
    fn blame(&self, error: ChannelError) -> ChannelError {
        match (error, &self.end) {
            (ChannelError::Timeout { waited, peers }, WriteEnd::Ring(ring)) if peers.is_empty() => {
                ChannelError::Timeout {
                    waited,
                    peers: ring.laggards(),
                }
            }
            (error, _) => error,
        }
    }

    /// Sends a value; awaits a free slot, on any executor. The wait has no time limit, but a death ends it.
    ///
    /// # Errors
    /// The errors of [`send`](Self::send).
    pub async fn send_async(&mut self, value: T) -> Result<(), SendError<T>> {
        let mut kept = Some(value);
        let sent = std::future::poll_fn(|context| {
            let end = &mut self.end;
            self.line.poll(context, || end.attempt(&mut kept))
        })
        .await;
        match (sent, kept) {
            (Err(error), Some(value)) => Err(SendError { value, error }),
            _ => Ok(()),
        }
    }

    /// Sends many values, in order. One call is cheaper than repeated calls of `send`, because sleeping readers are
    /// woken once for each batch that fits into the slots. Readers that poll can receive a value as soon as it is sent.
    ///
    /// # Errors
    /// The errors of [`send`](Self::send), with the faulty value. The values before it are sent, and those after it are
    /// still in `values`.
    pub fn send_all(&mut self, values: &mut impl Iterator<Item = T>) -> Result<(), SendError<T>> {
        self.end.set_quiet(true);
        let sent = values.try_for_each(|value| {
            let Some(value) = self.end.at_once(value) else {
                return Ok(());
            };
            // The slots are full, or the value cannot be sent. The readers must be woken before this thread waits for
            // them.
            self.end.set_quiet(false);
            let sent = self.send_slowly(value, self.line.timeout);
            self.end.set_quiet(true);
            sent
        });
        self.end.set_quiet(false);
        sent
    }

    /// Sends a copy of `value`: between threads a clone, between processes the encoding that every message needs
    /// anyway.
    ///
    /// # Errors
    /// The errors of [`send`](Self::send), without the value.
    pub fn send_ref(&mut self, value: &T) -> Result<(), ChannelError> {
        match &mut self.end {
            WriteEnd::Ring(_) => self.send(value.clone()).map_err(|refused| refused.error),
            WriteEnd::Shared(shared) => {
                if matches!(shared.try_write(value), Ok(true)) {
                    return Ok(());
                }
                let expected_bytes = shared.last_bytes();
                let attempt = || Ok(shared.try_write(value)?.then_some(()));
                self.line.wait(self.line.timeout, expected_bytes, attempt)
            }
        }
    }

    /// Sends a value if a slot is free; never waits.
    ///
    /// # Errors
    /// [`SendError`] with the value: [`ChannelError::Full`], and the errors of [`send`](Self::send) except
    /// [`ChannelError::Timeout`].
    pub fn try_send(&mut self, value: T) -> Result<(), SendError<T>> {
        let mut kept = Some(value);
        let end = &mut self.end;
        let error = match self.line.attempt(|| end.attempt(&mut kept)) {
            Ok(Some(())) => return Ok(()),
            Ok(None) => ChannelError::Full,
            Err(error) => error,
        };
        kept.map_or(Ok(()), |value| Err(SendError { value, error }))
    }

    /// Waits until every reader is done with every message, up to the channel's time limit. Call this, for example,
    /// before a writing process ends, because grown messages are lost with it.
    ///
    /// # Errors
    /// [`ChannelError::Timeout`] with the readers that are behind, [`ChannelError::Poisoned`] if a reader's process has
    /// died.
    pub fn flush(&mut self) -> Result<(), ChannelError> {
        self.wait_until(self.line.timeout, WriteEnd::is_drained)
    }

    /// Waits at most `timeout` until `check` returns `Some`.
    pub(super) fn wait_until(
        &mut self,
        timeout: Option<Duration>,
        mut check: impl FnMut(&mut WriteEnd<T>) -> Result<Option<()>, ChannelError>,
    ) -> Result<(), ChannelError> {
        let expected_bytes = self.end.expected_bytes();
        let end = &mut self.end;
        let attempt = || check(end);
        let waited = self.line.wait(timeout, expected_bytes, attempt);
        waited.map_err(|error| self.blame(error))
    }

    /// Closes the channel: no message follows. Never waits. A second call changes nothing. Later sends are refused with
    /// [`ChannelError::Closed`].
    pub fn close(&mut self) {
        match &mut self.end {
            WriteEnd::Ring(ring) => ring.close(),
            WriteEnd::Shared(shared) => shared.close(),
        }
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
        self.wait_until(self.line.timeout, WriteEnd::has_space)?;
        Loan::of(&mut self.end, len)
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
        self.wait_until(self.line.timeout, WriteEnd::has_space)?;
        TensorLoan::of(&mut self.end, shape)
    }
}
