//! One request of this process, from its begin to its end.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use selvedge_objects::channel::{ChannelError, NotPut, Outcome};
use selvedge_objects::refs::RefId;

use super::error::RemoteChannelError;
use super::message::ChannelRefusal;
use super::requests::Settled;
use super::service::RemoteChannels;
use super::value::SharedValue;
use crate::cancel::{Unwanted, cancellation};
use crate::current::{NoBlocking, blocking};
use crate::failure::Failure;
use crate::promise::{Answer, NoAnswer};
use crate::reference::handle::Handle;

/// A request without an end, or a value that is not acknowledged. The drop cancels the request: a value that was taken
/// goes back.
pub(super) struct ChannelOperation {
    service: Arc<RemoteChannels>,
    /// The channel lives as long as the request.
    handle: Arc<Handle>,
    number: u64,
    answer: Answer<Settled>,
}

impl ChannelOperation {
    pub(super) fn new(
        service: Arc<RemoteChannels>,
        handle: Arc<Handle>,
        number: u64,
        answer: Answer<Settled>,
    ) -> Self {
        ChannelOperation {
            service,
            handle,
            number,
            answer,
        }
    }

    fn channel(&self) -> RefId {
        self.handle.id()
    }

    /// Waits for the end of the request. A remote function that waits gives its place to another one
    /// meanwhile; the wait ends when the call of the function is cancelled.
    pub(super) fn wait(
        &mut self,
        deadline: Option<Instant>,
    ) -> Result<Outcome<SharedValue>, RemoteChannelError> {
        let (started, channel) = (Instant::now(), self.channel());
        let call = cancellation();
        if call.is_cancelled() {
            return Err(RemoteChannelError::Cancelled { channel });
        }
        let mut settled = self.answer.taken();
        if settled.is_none() {
            let waited = blocking(|| call.wait_for(&mut self.answer, deadline));
            let waited = waited.map_err(|refused| match refused {
                NoBlocking::Async => RemoteChannelError::WouldBlock { channel },
                NoBlocking::TooMany { limit } => RemoteChannelError::TooManyBlocked { channel, limit },
            })?;
            settled = waited.map_err(|Unwanted| RemoteChannelError::Cancelled { channel })?;
        }
        match settled {
            Some(settled) => ended(channel, settled),
            None => Err(RemoteChannelError::Timeout {
                channel,
                waited: started.elapsed(),
            }),
        }
    }

    /// A value that was taken is safe.
    pub(super) fn acknowledge(&self) {
        self.service.acknowledge(self.channel(), self.number);
    }
}

impl Future for ChannelOperation {
    type Output = Result<Outcome<SharedValue>, RemoteChannelError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let channel = this.channel();
        this.answer.poll(context).map(|settled| ended(channel, settled))
    }
}

impl Drop for ChannelOperation {
    fn drop(&mut self) {
        self.service.cancel(self.channel(), self.number);
    }
}

fn ended(
    channel: RefId,
    settled: Result<Settled, NoAnswer>,
) -> Result<Outcome<SharedValue>, RemoteChannelError> {
    match settled {
        Ok(Ok(Outcome::Failed(reason) | Outcome::NotPut(NotPut { reason, .. }))) => Err(match reason {
            ChannelError::Closed(_) => RemoteChannelError::Closed { channel },
            ChannelError::TooMany { limit, .. } => RemoteChannelError::TooMany { channel, limit },
            _ => RemoteChannelError::HomeLost { channel },
        }),
        Ok(Ok(outcome)) => Ok(outcome),
        Ok(Err(ChannelRefusal::Gone)) => Err(RemoteChannelError::Gone { channel }),
        Ok(Err(ChannelRefusal::Unreadable(report))) => Err(RemoteChannelError::Unreadable {
            channel,
            failure: Failure::from_error(report),
        }),
        Err(NoAnswer::Broken | NoAnswer::Taken) => Err(RemoteChannelError::Shutdown { channel }),
    }
}
