//! A reading end.

use std::fmt;
use std::time::Duration;

use super::line::Line;
use super::view::View;
use crate::error::ChannelError;
use crate::payload::Wire;
use crate::value::{Arrival, Value};

/// A reading end of a channel. It sees every message, in order. Dropping it lets go of them all: it never holds the
/// writer back.
pub struct Reader<T> {
    pub(super) value: Value<T>,
    pub(super) next: u64,
    pub(super) line: Line,
}

impl<T> fmt::Debug for Reader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

impl<T: Wire> Reader<T> {
    pub(super) fn new(value: Value<T>, line: Line) -> Self {
        Reader { value, next: 0, line }
    }

    /// Number of the next message, counted from 0.
    #[inline]
    pub fn position(&self) -> u64 {
        self.next
    }

    /// Waits until the next message is there.
    pub(super) fn arrive(&mut self, timeout: Option<Duration>) -> Result<(), ChannelError> {
        let expected_bytes = self.value.expected_bytes();
        let (value, next) = (&mut self.value, self.next);
        let attempt = || Ok((value.attempt(next)? != Arrival::Nothing).then_some(()));
        self.line.wait(timeout, expected_bytes, attempt)
    }

    /// The message that has come, and the end of it here.
    #[inline]
    fn take(&mut self) -> Result<T, ChannelError> {
        let taken = self.value.take();
        self.pass();
        taken
    }

    /// Is done with the message that has come, whatever became of it.
    pub(super) fn pass(&mut self) {
        // It has come, so there is something to be done with; what the channel says is said by the next read.
        let _ = self.value.read_done();
        self.next += 1;
    }

    /// The next message; waits for it as long as the channel's time-out allows.
    ///
    /// # Errors
    /// [`ChannelError::Timeout`] (nothing has changed; the next attempt may succeed), [`ChannelError::Closed`] when the
    /// writer is done, [`ChannelError::Poisoned`] when its process has died; both after the messages that are there.
    /// [`ChannelError::Decode`] when the bytes are no `T`; the next message follows.
    #[inline]
    pub fn recv(&mut self) -> Result<T, ChannelError> {
        self.recv_within(self.line.timeout)
    }

    /// The next value, where there is one to be had without further ado.
    #[inline]
    fn next_value(&mut self) -> Option<T> {
        let value = self.value.take_next()?;
        self.next += 1;
        Some(value)
    }

    #[inline]
    fn recv_within(&mut self, timeout: Option<Duration>) -> Result<T, ChannelError> {
        match self.next_value() {
            Some(value) => Ok(value),
            None => self.recv_slowly(timeout),
        }
    }

    #[inline(never)]
    fn recv_slowly(&mut self, timeout: Option<Duration>) -> Result<T, ChannelError> {
        self.arrive(timeout)?;
        self.take()
    }

    /// The next message, awaited on any executor; without a time-out, but a death ends it. Dropping the future changes
    /// nothing.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub async fn recv_async(&mut self) -> Result<T, ChannelError> {
        std::future::poll_fn(|context| {
            let (value, next) = (&mut self.value, self.next);
            let attempt = || Ok((value.attempt(next)? != Arrival::Nothing).then_some(()));
            self.line.poll(context, attempt)
        })
        .await?;
        self.take()
    }

    /// As [`recv`](Self::recv), waiting at most `timeout`.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<T, ChannelError> {
        self.recv_within(Some(timeout))
    }

    /// The next message, if it is there.
    ///
    /// # Errors
    /// As [`recv`](Self::recv), without the time-out.
    #[inline]
    pub fn try_recv(&mut self) -> Result<Option<T>, ChannelError> {
        if let Some(value) = self.next_value() {
            return Ok(Some(value));
        }
        let (value, next) = (&mut self.value, self.next);
        let attempt = || Ok((value.attempt(next)? != Arrival::Nothing).then_some(()));
        match self.line.attempt(attempt)? {
            Some(()) => self.take().map(Some),
            None => Ok(None),
        }
    }

    /// Appends the messages that are there to `out`, at most `max`; waits for the first of them. Returns how many.
    /// Cheaper than as many calls of `recv`: a writer that waits for space is woken once.
    ///
    /// # Errors
    /// As [`recv`](Self::recv); messages before the one at fault are in `out`.
    pub fn recv_many(&mut self, max: usize, out: &mut Vec<T>) -> Result<usize, ChannelError> {
        if max == 0 {
            return Ok(0);
        }
        self.arrive(self.line.timeout)?;
        let before = out.len();
        self.value.set_quiet(true);
        let drained = self.drain(max, out);
        self.value.set_quiet(false);
        let count = out.len() - before;
        match drained {
            // What ends the channel is said by the next read, which finds no messages before it.
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

    /// The next message where it lies: its slot is free again when the view is dropped.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn view(&mut self) -> Result<View<'_, T>, ChannelError> {
        self.arrive(self.line.timeout)?;
        Ok(View::new(self))
    }

    /// As [`view`](Self::view), waiting at most `timeout`.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn view_timeout(&mut self, timeout: Duration) -> Result<View<'_, T>, ChannelError> {
        self.arrive(Some(timeout))?;
        Ok(View::new(self))
    }

    /// Passes the next message without decoding it.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn skip(&mut self) -> Result<(), ChannelError> {
        self.view().map(drop)
    }

    /// The messages until the writer is done; an error other than that is the last item.
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

    pub(super) fn value(&self) -> &Value<T> {
        &self.value
    }
}
