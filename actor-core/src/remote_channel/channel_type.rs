//! `RemoteChannel`, which users hold.

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use selvedge_channels::Wire;
use selvedge_cluster::peer::Peer;
use selvedge_objects::channel::Outcome;
use selvedge_objects::refs::RefId;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::error::RemoteChannelError;
use super::iteration::{ChannelIter, ChannelStream};
use super::operation::{ChannelOperation, permit};
use super::refused::{PutRefused, RequestFailed, ValueToPut};
use super::requests::{NumberedRequest, User};
use super::service::RemoteChannels;
use super::value::{SharedValue, read};
use crate::failure::Failure;
use crate::reference::handle::Handle;
use crate::reference::transit;

/// A bounded queue in one process, its home, that any process puts into and takes from.
///
/// [`Runtime::channel`](crate::Runtime::channel) and [`Worker::channel`](crate::Worker::channel) make one. Clones are the
/// same channel, and so is what arrives where a channel is passed in arguments, results and other values; elsewhere it does
/// not serialise. The home drops the channel, with the values in it, when no process holds it any more.
///
/// Each value is taken once, in the order of puts. A value on its way stays the channel's own until its taker has
/// acknowledged it: if the taker dies before, the value goes back to its old place. A wait ends with its answer, when the
/// channel is closed, when its home dies, and with the runtime; `_timeout` limits it, and `_async` awaits it. A future that
/// is dropped cancels its request.
///
/// In its home, a channel sends no messages, and a value that is put there and taken there is moved and not encoded: an
/// `Arc` in it is shared. Elsewhere it is a copy.
///
/// ```
/// use selvedge_core::{RemoteChannel, Runtime};
///
/// let runtime = Runtime::new();
/// let channel: RemoteChannel<String> = runtime.channel(2)?;
/// channel.put("one".to_owned())?;
/// channel.put("two".to_owned())?;
/// channel.close()?;
/// assert_eq!(channel.peek()?, "one");
/// assert_eq!(channel.take()?, "one");
/// assert_eq!(channel.iter().collect::<Result<Vec<_>, _>>()?, ["two"]);
/// assert!(channel.take().unwrap_err().is_closed());
/// # Ok::<(), selvedge_core::RemoteChannelError>(())
/// ```
pub struct RemoteChannel<T> {
    handle: Arc<Handle>,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for RemoteChannel<T> {
    fn clone(&self) -> Self {
        RemoteChannel::of(Arc::clone(&self.handle))
    }
}

impl<T> fmt::Debug for RemoteChannel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteChannel<{}>({})", type_name::<T>(), self.id())
    }
}

impl<T> Serialize for RemoteChannel<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        transit::serialize(&self.handle, serializer)
    }
}

impl<'de, T> Deserialize<'de> for RemoteChannel<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        transit::deserialize(deserializer).map(RemoteChannel::of)
    }
}

impl<T> RemoteChannel<T> {
    pub(super) fn of(handle: Arc<Handle>) -> Self {
        let of = PhantomData;
        RemoteChannel { handle, of }
    }

    #[cfg(test)]
    pub(super) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// The channel's name.
    #[must_use]
    pub fn id(&self) -> RefId {
        self.handle.id()
    }

    /// The process in which the channel lives.
    #[must_use]
    pub fn home(&self) -> Peer {
        self.id().owner
    }

    /// Lets nobody put any more, here or elsewhere: every put fails with [`RemoteChannelError::Closed`], also those that
    /// wait. Takers get the values that are left, and then that error. Does not wait for the home.
    ///
    /// # Errors
    /// [`RemoteChannelError`].
    pub fn close(&self) -> Result<(), RemoteChannelError> {
        self.service()?.close(self.id())
    }

    fn service(&self) -> Result<Arc<RemoteChannels>, RemoteChannelError> {
        let channel = self.id();
        RemoteChannels::of(&self.handle).ok_or(RemoteChannelError::Shutdown { channel })
    }

    fn begin(
        &self,
        ask: impl FnOnce(&mut User) -> NumberedRequest,
    ) -> Result<ChannelOperation, RemoteChannelError> {
        self.service()?.begin(&self.handle, ask)
    }

    /// Begins a take.
    pub(super) fn taking(&self) -> Result<ChannelOperation, RemoteChannelError> {
        self.begin(User::take)
    }

    /// Takes, and waits for the value.
    pub(super) fn asked_to_take(
        &self,
        timeout: Option<Duration>,
    ) -> Result<(ChannelOperation, Outcome<SharedValue>), RemoteChannelError> {
        self.asked(User::take, timeout).map_err(Into::into)
    }

    /// Waits for a request. Without a timeout, the wait ends as the documentation of the type says. A function that must not
    /// wait asks for nothing elsewhere, and here for nothing that it would have to wait for.
    fn asked(
        &self,
        ask: impl FnOnce(&mut User) -> NumberedRequest,
        timeout: Option<Duration>,
    ) -> Result<(ChannelOperation, Outcome<SharedValue>), RequestFailed> {
        let timeout = timeout.unwrap_or(Duration::MAX);
        let (mut operation, waiting) = match self.is_home() {
            true => self.service()?.begin_here(&self.handle, ask, timeout)?,
            false => {
                let waiting = permit(self.id(), timeout)?;
                (self.begin(ask)?, waiting)
            }
        };
        let outcome = operation.wait(waiting)?;
        Ok((operation, outcome))
    }

    async fn awaited(
        &self,
        ask: impl FnOnce(&mut User) -> NumberedRequest,
    ) -> Result<(ChannelOperation, Outcome<SharedValue>), RequestFailed> {
        let mut operation = self.begin(ask)?;
        let outcome = (&mut operation).await?;
        Ok((operation, outcome))
    }

    fn unreadable(&self, failure: Failure) -> RemoteChannelError {
        let channel = self.id();
        RemoteChannelError::Unreadable { channel, failure }
    }

    fn ready_now(&self, outcome: &Outcome<SharedValue>) -> Result<bool, RemoteChannelError> {
        match outcome {
            Outcome::Ready(is_ready) => Ok(*is_ready),
            _ => Err(RemoteChannelError::Gone { channel: self.id() }),
        }
    }

    fn is_home(&self) -> bool {
        self.handle.is_owned()
    }

    /// Waits until there is a value, without moving it. Another taker may have it by then.
    ///
    /// # Errors
    /// [`RemoteChannelError`].
    pub fn ready(&self) -> Result<(), RemoteChannelError> {
        self.asked(User::ready, None)?;
        Ok(())
    }

    /// Waits like [`ready`](Self::ready), at most `timeout`.
    ///
    /// # Errors
    /// [`RemoteChannelError`].
    pub fn ready_timeout(&self, timeout: Duration) -> Result<(), RemoteChannelError> {
        self.asked(User::ready, Some(timeout))?;
        Ok(())
    }

    /// Waits like [`ready`](Self::ready), by `.await`.
    ///
    /// # Errors
    /// [`RemoteChannelError`].
    pub async fn ready_async(&self) -> Result<(), RemoteChannelError> {
        self.awaited(User::ready).await?;
        Ok(())
    }

    /// Asks the home whether there is a value now. That may have changed when the answer arrives: another process may have
    /// put or taken one.
    ///
    /// # Errors
    /// [`RemoteChannelError`].
    pub fn is_ready(&self) -> Result<bool, RemoteChannelError> {
        let (_, outcome) = self.asked(User::is_ready, None)?;
        self.ready_now(&outcome)
    }

    /// Asks like [`is_ready`](Self::is_ready), by `.await`.
    ///
    /// # Errors
    /// [`RemoteChannelError`].
    pub async fn is_ready_async(&self) -> Result<bool, RemoteChannelError> {
        let (_, outcome) = self.awaited(User::is_ready).await?;
        self.ready_now(&outcome)
    }
}

impl<T: Wire> RemoteChannel<T> {
    /// Puts a value behind all others. Waits for room; with a capacity of 0, until a taker's value was encoded, or taken in
    /// this process.
    ///
    /// # Errors
    /// [`PutRefused`], which gives the value back if it is not in the channel. `?` turns it into a [`RemoteChannelError`] where one is
    /// returned.
    pub fn put(&self, value: T) -> Result<(), PutRefused<T>> {
        self.put_within(value, None)
    }

    /// Puts a value like [`put`](Self::put), and waits at most `timeout`.
    ///
    /// # Errors
    /// [`PutRefused`]. After a [`Timeout`](RemoteChannelError::Timeout) the value may be in the channel, and does not come back.
    pub fn put_timeout(&self, value: T, timeout: Duration) -> Result<(), PutRefused<T>> {
        self.put_within(value, Some(timeout))
    }

    /// Puts a value like [`put`](Self::put), by `.await`. When the future is dropped, the value may be in the channel.
    ///
    /// # Errors
    /// [`PutRefused`].
    pub async fn put_async(&self, value: T) -> Result<(), PutRefused<T>> {
        let mut to_put = self.to_put(value)?;
        let asked = self.awaited(|user| to_put.ask(user)).await;
        asked.map(drop).map_err(|failed| to_put.refused(failed))
    }

    /// Takes the oldest value; waits for one. The value is acknowledged once it is decoded, before this method returns: a
    /// process that dies later has had it. [`iter`](Self::iter) acknowledges a value after its use.
    ///
    /// # Errors
    /// [`RemoteChannelError`].
    pub fn take(&self) -> Result<T, RemoteChannelError> {
        let (operation, outcome) = self.asked(User::take, None)?;
        self.taken(operation, outcome)
    }

    /// Takes a value like [`take`](Self::take), and waits at most `timeout`.
    ///
    /// # Errors
    /// [`RemoteChannelError`].
    pub fn take_timeout(&self, timeout: Duration) -> Result<T, RemoteChannelError> {
        let (operation, outcome) = self.asked(User::take, Some(timeout))?;
        self.taken(operation, outcome)
    }

    /// Takes a value like [`take`](Self::take), by `.await`. When the future is dropped, a value that was on its way goes
    /// back.
    ///
    /// # Errors
    /// [`RemoteChannelError`].
    pub async fn take_async(&self) -> Result<T, RemoteChannelError> {
        let (operation, outcome) = self.awaited(User::take).await?;
        self.taken(operation, outcome)
    }

    /// Copies the oldest value, which stays in the channel; waits for one.
    ///
    /// # Errors
    /// [`RemoteChannelError`].
    pub fn peek(&self) -> Result<T, RemoteChannelError> {
        let (_, outcome) = self.asked(User::peek, None)?;
        self.peeked(outcome)
    }

    /// Copies the oldest value like [`peek`](Self::peek), and waits at most `timeout`.
    ///
    /// # Errors
    /// [`RemoteChannelError`].
    pub fn peek_timeout(&self, timeout: Duration) -> Result<T, RemoteChannelError> {
        let (_, outcome) = self.asked(User::peek, Some(timeout))?;
        self.peeked(outcome)
    }

    /// Copies the oldest value like [`peek`](Self::peek), by `.await`.
    ///
    /// # Errors
    /// [`RemoteChannelError`].
    pub async fn peek_async(&self) -> Result<T, RemoteChannelError> {
        let (_, outcome) = self.awaited(User::peek).await?;
        self.peeked(outcome)
    }

    /// Takes values until the channel is closed and empty. Each step acknowledges the value of the step before, so a value
    /// whose process dies while it is in use goes back, and another taker gets it: it may be used twice, but is never
    /// lost. The drop of the loop gives the last value back, unless [`ChannelIter::acknowledge`] was called.
    ///
    /// ```no_run
    /// # use selvedge_core::{BoxError, RemoteChannel};
    /// fn work(jobs: RemoteChannel<u64>, results: RemoteChannel<u64>) -> Result<(), BoxError> {
    ///     for job in jobs.iter() {
    ///         results.put(job? + 1)?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    #[must_use]
    pub fn iter(&self) -> ChannelIter<T> {
        ChannelIter::new(self.clone())
    }

    /// Takes values like [`iter`](Self::iter), as a stream.
    #[must_use]
    pub fn stream(&self) -> ChannelStream<T> {
        ChannelStream::new(self.clone())
    }

    /// Copies of the values in the channel, the oldest first; only in its home. A value on its way to a taker is not among
    /// them.
    ///
    /// # Errors
    /// [`RemoteChannelError::NotHere`], [`RemoteChannelError::Unreadable`].
    pub fn snapshot(&self) -> Result<Vec<T>, RemoteChannelError> {
        let values = self.service()?.snapshot(self.id())?;
        let copies = values.into_iter().map(|value| self.read(value));
        copies.collect()
    }

    fn put_within(&self, value: T, timeout: Option<Duration>) -> Result<(), PutRefused<T>> {
        let mut to_put = self.to_put(value)?;
        let asked = self.asked(|user| to_put.ask(user), timeout);
        asked.map(drop).map_err(|failed| to_put.refused(failed))
    }

    /// A value that is to be put. It is encoded if it leaves this process.
    fn to_put(&self, value: T) -> Result<ValueToPut, PutRefused<T>> {
        ValueToPut::new(value, self.home(), self.is_home()).map_err(|(failure, value)| PutRefused {
            value,
            error: self.unreadable(failure),
        })
    }

    fn taken(
        &self,
        operation: ChannelOperation,
        outcome: Outcome<SharedValue>,
    ) -> Result<T, RemoteChannelError> {
        let value = self.value_of(outcome)?;
        if value.is_here() {
            // Nothing can be lost any more, and the value moves.
            operation.acknowledge();
            return self.read(value);
        }
        let value = self.read(value);
        operation.acknowledge();
        value
    }

    fn peeked(&self, outcome: Outcome<SharedValue>) -> Result<T, RemoteChannelError> {
        self.read(self.value_of(outcome)?)
    }

    /// The value of an answer to a take or a peek.
    pub(super) fn value_of(&self, outcome: Outcome<SharedValue>) -> Result<SharedValue, RemoteChannelError> {
        match outcome {
            Outcome::Value(value) => Ok(value),
            _ => Err(RemoteChannelError::Gone { channel: self.id() }),
        }
    }

    /// Decodes a value. This runs user code.
    pub(super) fn read(&self, value: SharedValue) -> Result<T, RemoteChannelError> {
        read(value).map_err(|failure| self.unreadable(failure))
    }
}
