//! Puts that failed: [`PutRefused`], which gives the value back.

use std::fmt;

use selvedge_channels::Wire;
use selvedge_cluster::peer::Peer;
use selvedge_objects::channel::{ChannelError, Wish};

use super::error::RemoteChannelError;
use super::requests::{NumberedRequest, User};
use super::value::{ChannelValue, SharedValue, read};
use crate::failure::Failure;

/// A put that failed: the reason, and the value if it is not in the channel.
///
/// `?` turns this into a [`RemoteChannelError`] where one is returned, and drops the value.
#[derive(thiserror::Error)]
#[error("{error}")]
pub struct PutRefused<T> {
    /// The value. `None` if it may be in the channel: after a [`Timeout`](RemoteChannelError::Timeout), and if a wait for the answer
    /// was ended by [`Cancelled`](RemoteChannelError::Cancelled) or [`Shutdown`](RemoteChannelError::Shutdown). After
    /// [`HomeLost`](RemoteChannelError::HomeLost) the channel is no more, but a taker may have had the value before. A value that was
    /// encoded for another process is decoded; `None` if that fails.
    pub value: Option<T>,
    /// The reason.
    pub error: RemoteChannelError,
}

impl<T> fmt::Debug for PutRefused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.error, f)
    }
}

/// The reason alone. The value is dropped.
impl<T> From<PutRefused<T>> for RemoteChannelError {
    fn from(refused: PutRefused<T>) -> Self {
        refused.error
    }
}

/// A request that failed, with the value of a put that has come back.
pub(super) struct RequestFailed {
    pub(super) error: RemoteChannelError,
    pub(super) value: Option<SharedValue>,
}

impl RequestFailed {
    /// A request that was not made, and what was wished.
    pub(super) fn unmade(error: RemoteChannelError, wish: Wish<SharedValue>) -> Self {
        let value = match wish {
            Wish::Put(value) => Some(value),
            _ => None,
        };
        RequestFailed { error, value }
    }
}

impl From<RemoteChannelError> for RequestFailed {
    fn from(error: RemoteChannelError) -> Self {
        RequestFailed { error, value: None }
    }
}

impl From<RequestFailed> for RemoteChannelError {
    fn from(failed: RequestFailed) -> Self {
        failed.error
    }
}

/// A value that is to be put.
pub(super) struct ValueToPut {
    /// The process of the channel.
    home: Peer,
    /// The value, until the request begins.
    value: Option<SharedValue>,
    /// An encoded value. One that moves within this process is not held here: its taker would have to clone it.
    encoded: Option<SharedValue>,
}

impl ValueToPut {
    /// A value, which is encoded if it leaves this process. This runs user code then.
    ///
    /// # Errors
    /// The value cannot be encoded, and comes back.
    pub(super) fn new<T: Wire>(value: T, home: Peer, is_here: bool) -> Result<Self, (Failure, Option<T>)> {
        let here = ChannelValue::here(value);
        if is_here {
            let (value, encoded) = (Some(here), None);
            return Ok(ValueToPut { home, value, encoded });
        }
        match here.to_encoded() {
            Ok(encoded) => {
                let value = ChannelValue::encoded(encoded);
                let encoded = Some(SharedValue::clone(&value));
                let value = Some(value);
                Ok(ValueToPut { home, value, encoded })
            }
            Err(failure) => Err((failure, read(here).ok())),
        }
    }

    /// Begins the request.
    pub(super) fn ask(&mut self, user: &mut User) -> NumberedRequest {
        // A request begins once.
        let value = self.value.take().ok_or(ChannelError::HomeLost(self.home))?;
        user.put(value).map_err(|refused| {
            self.value = Some(refused.value);
            refused.reason
        })
    }

    /// The end of a put that failed. This may run user code.
    pub(super) fn refused<T: Wire>(self, failed: RequestFailed) -> PutRefused<T> {
        let RequestFailed { error, value } = failed;
        let may_be_there = matches!(
            error,
            RemoteChannelError::Timeout { .. }
                | RemoteChannelError::Cancelled { .. }
                | RemoteChannelError::Shutdown { .. }
        );
        let encoded = self.encoded.filter(|_| !may_be_there);
        let value = self.value.or(value).or(encoded);
        let value = value.and_then(|value| read(value).ok());
        PutRefused { value, error }
    }
}
