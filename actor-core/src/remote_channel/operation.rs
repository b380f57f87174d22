//! One request of this process, from its begin to its end.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use selvedge_objects::channel::{ChannelError, NotPut, Outcome};
use selvedge_objects::refs::RefId;

use super::error::RemoteChannelError;
use super::message::ChannelRefusal;
use super::refused::RequestFailed;
use super::requests::Settled;
use super::service::RemoteChannels;
use super::value::SharedValue;
use crate::current::NoBlocking;
use crate::failure::Failure;
use crate::promise::{Answer, NoAnswer};
use crate::reference::handle::Handle;
use crate::waiting::{Unanswered, WaitPermit};

/// A request without an end, or a value that is not acknowledged. The drop cancels the request: a value that was taken
/// goes back.
pub(super) struct ChannelOperation {
    service: Arc<RemoteChannels>,
    /// The channel lives as long as the request.
    handle: Arc<Handle>,
    number: u64,
    answer: Answer<Settled>,
}

/// Begins a wait of at most `timeout` for a request that is about to begin, if this function may wait.
pub(super) fn permit(channel: RefId, timeout: Duration) -> Result<WaitPermit, RemoteChannelError> {
    WaitPermit::begin(timeout).map_err(|reason| not_awaited(channel, reason))
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

    /// Waits for the end of the request, as remote functions wait.
    pub(super) fn wait(&mut self, waiting: WaitPermit) -> Result<Outcome<SharedValue>, RequestFailed> {
        let waited = waiting.wait_for(&mut self.answer);
        let channel = self.channel();
        match waited {
            Ok(settled) => ended(&self.service, channel, settled),
            Err(reason) => Err(not_awaited(channel, reason).into()),
        }
    }

    /// A value that was taken is safe.
    pub(super) fn acknowledge(&self) {
        self.service.acknowledge(self.channel(), self.number);
    }
}

impl Future for ChannelOperation {
    type Output = Result<Outcome<SharedValue>, RequestFailed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let channel = this.channel();
        this.answer
            .poll(context)
            .map(|settled| ended(&this.service, channel, settled))
    }
}

impl Drop for ChannelOperation {
    fn drop(&mut self) {
        self.service.cancel(self.channel(), self.number);
    }
}

/// The error of a wait that ended without its answer.
fn not_awaited(channel: RefId, reason: Unanswered) -> RemoteChannelError {
    match reason {
        Unanswered::Cancelled => RemoteChannelError::Cancelled { channel },
        Unanswered::TimedOut { waited } => RemoteChannelError::Timeout { channel, waited },
        Unanswered::Refused(NoBlocking::Async) => RemoteChannelError::WouldBlock { channel },
        Unanswered::Refused(NoBlocking::TooMany { limit }) => {
            RemoteChannelError::TooManyBlocked { channel, limit }
        }
    }
}

fn ended(
    service: &RemoteChannels,
    channel: RefId,
    settled: Result<Settled, NoAnswer>,
) -> Result<Outcome<SharedValue>, RequestFailed> {
    let failed = |reason| match reason {
        ChannelError::Closed(_) => RemoteChannelError::Closed { channel },
        ChannelError::TooMany { limit, .. } => RemoteChannelError::TooMany { channel, limit },
        _ => service.home_lost(channel),
    };
    let error = match settled {
        Ok(Ok(Outcome::NotPut(NotPut { value, reason }))) => {
            return Err(RequestFailed {
                error: failed(reason),
                value: Some(value),
            });
        }
        Ok(Ok(Outcome::Failed(reason))) => failed(reason),
        Ok(Ok(outcome)) => return Ok(outcome),
        Ok(Err(ChannelRefusal::Gone)) => RemoteChannelError::Gone { channel },
        Ok(Err(ChannelRefusal::Unreadable(report))) => RemoteChannelError::Unreadable {
            channel,
            failure: Failure::from_error(report),
        },
        Err(NoAnswer::Broken | NoAnswer::Taken) => RemoteChannelError::Shutdown { channel },
    };
    Err(error.into())
}
