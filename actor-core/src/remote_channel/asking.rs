//! The side of the process that asks: requests begin, and end with their answer.

use std::sync::Arc;
use std::time::Duration;

use selvedge_cluster::peer::Peer;
use selvedge_objects::channel::{Answer, Request, Wish};
use selvedge_objects::refs::{RefError, RefId};

use super::error::RemoteChannelError;
use super::message::{ChannelMessage, ChannelRefusal};
use super::operation::{ChannelOperation, permit};
use super::refused::RequestFailed;
use super::requests::{ChannelRequests, NoRequest, NumberedRequest, User};
use super::service::RemoteChannels;
use super::value::{EncodedValue, SharedValue, deferring};
use crate::body::Body;
use crate::failure::Failure;
use crate::hub::post::PostError;
use crate::process_name::ProcessName;
use crate::promise::{promise, promise_by_letter};
use crate::reference::effect::EffectThread;
use crate::reference::handle::Handle;
use crate::reference::unsaid::Unsaid;
use crate::waiting::WaitPermit;

impl RemoteChannels {
    /// Begins a request.
    ///
    /// # Errors
    /// [`RemoteChannelError`]; nothing was sent then.
    pub(super) fn begin(
        self: &Arc<Self>,
        handle: &Arc<Handle>,
        ask: impl FnOnce(&mut User) -> NumberedRequest,
    ) -> Result<ChannelOperation, RemoteChannelError> {
        let (asker, answer) = match handle.id().owner == self.me() {
            true => promise(),
            false => promise_by_letter(self.post.lead()),
        };
        let request = self.enter(handle.id(), |requests| requests.begin(handle.id(), ask, asker))?;
        let number = request.number;
        self.pass_on(handle.id(), request)
            .inspect_err(|error| self.forget(handle.id(), number, error))?;
        Ok(ChannelOperation::new(
            Arc::clone(self),
            Arc::clone(handle),
            number,
            answer,
        ))
    }

    /// Begins a request to a channel of this process, and the wait for its answer, which is over already if there is nothing
    /// to wait for.
    ///
    /// # Errors
    /// [`RequestFailed`]; nothing was asked for then.
    pub(super) fn begin_here(
        self: &Arc<Self>,
        handle: &Arc<Handle>,
        ask: impl FnOnce(&mut User) -> NumberedRequest,
        timeout: Duration,
    ) -> Result<(ChannelOperation, WaitPermit), RequestFailed> {
        let (channel, (asker, answer)) = (handle.id(), promise());
        let request = self.enter(channel, |requests| requests.begin(channel, ask, asker))?;
        let (service, handle) = (Arc::clone(self), Arc::clone(handle));
        let operation = ChannelOperation::new(service, handle, request.number, answer);
        let waiting = match self.ask_here_at_once(channel, request) {
            None => WaitPermit::in_place(timeout),
            Some(unanswered) => match permit(channel, timeout) {
                Ok(waiting) => {
                    self.ask_here(channel, unanswered);
                    waiting
                }
                Err(error) => {
                    // Nobody else has the value then.
                    drop(operation);
                    return Err(RequestFailed::unmade(error, unanswered.wish));
                }
            },
        };
        Ok((operation, waiting))
    }

    /// Closes a channel.
    ///
    /// # Errors
    /// [`RemoteChannelError`].
    pub(super) fn close(&self, channel: RefId) -> Result<(), RemoteChannelError> {
        let request = self.enter(channel, |requests| requests.close(channel.owner))?;
        self.pass_on(channel, request)
    }

    /// Enters a request, unless the channel is known to be lost.
    fn enter(
        &self,
        channel: RefId,
        begin: impl FnOnce(&mut ChannelRequests) -> Result<Request<SharedValue>, NoRequest>,
    ) -> Result<Request<SharedValue>, RemoteChannelError> {
        self.references.check(channel).map_err(|error| match error {
            RefError::Lost(_) => self.home_lost(channel),
            _ if self.references.is_stopped() => RemoteChannelError::Shutdown { channel },
            _ => RemoteChannelError::Gone { channel },
        })?;
        let (begun, spent) = deferring(|| begin(&mut self.requests.lock()));
        self.dispose(spent, EffectThread::Caller);
        begun.map_err(|refused| match refused {
            NoRequest::Stopped => RemoteChannelError::Shutdown { channel },
            NoRequest::Lost => self.home_lost(channel),
        })
    }

    /// Passes a request on to the channel, on a thread that may run user code.
    fn pass_on(&self, channel: RefId, request: Request<SharedValue>) -> Result<(), RemoteChannelError> {
        if channel.owner == self.me() {
            self.ask_here(channel, request);
            return Ok(());
        }
        let unreadable = |failure| RemoteChannelError::Unreadable { channel, failure };
        let value = match &request.wish {
            Wish::Put(value) => value.to_encoded().map_err(unreadable)?,
            _ => EncodedValue::default(),
        };
        let EncodedValue { body, handles } = value;
        let sent = self.references.send(channel.owner, None, &handles, |parcels| {
            let request = request.map(|_| parcels);
            ChannelMessage::Asked { channel, request }.letter(channel, body)
        });
        sent.map(drop).map_err(|error| match error {
            Unsaid::Reference(RefError::Dead(_))
            | Unsaid::Post(PostError::Dead(_) | PostError::NoSuchPeer(_)) => self.home_lost(channel),
            Unsaid::Reference(error) => unreadable(Failure::from_error(error)),
            Unsaid::Post(error) => RemoteChannelError::Unreachable {
                channel,
                home: self.home(channel),
                reason: error.to_string(),
            },
        })
    }

    /// The process of a channel, as errors name it.
    fn home(&self, channel: RefId) -> ProcessName {
        self.post.names().name(channel.owner.process)
    }

    /// The error of a channel whose process is dead.
    pub(super) fn home_lost(&self, channel: RefId) -> RemoteChannelError {
        let home = self.home(channel);
        let end = self.post.ends().end(channel.owner);
        RemoteChannelError::HomeLost { channel, home, end }
    }

    /// A request was not sent.
    fn forget(&self, channel: RefId, number: u64, error: &RemoteChannelError) {
        let is_dead = matches!(error, RemoteChannelError::HomeLost { .. });
        let (forgotten, spent) = deferring(|| self.requests.lock().forget(channel.owner, number, is_dead));
        drop(forgotten);
        self.dispose(spent, EffectThread::Caller);
    }

    /// A value that was taken is safe.
    pub(super) fn acknowledge(&self, channel: RefId, number: u64) {
        let request = self.requests.lock().acknowledge(channel.owner, number);
        self.tell(channel, request);
    }

    /// A request is not wanted any more.
    pub(super) fn cancel(&self, channel: RefId, number: u64) {
        let ((request, asker), spent) = deferring(|| self.requests.lock().cancel(channel.owner, number));
        drop(asker);
        self.dispose(spent, EffectThread::Caller);
        self.tell(channel, request);
    }

    /// Passes on a request without an answer, which the channel must have.
    fn tell(&self, channel: RefId, request: Option<Request<SharedValue>>) {
        let Some(request) = request else { return };
        if channel.owner == self.me() {
            return self.ask_here(channel, request);
        }
        let request = request.map(|_| Vec::new());
        let letter = ChannelMessage::Asked { channel, request }.letter(channel, Body::EMPTY);
        let sent = self.post.send(channel.owner, letter);
        self.post.told(channel.owner, sent);
    }

    /// The answer to a request has come.
    pub(super) fn answered(
        &self,
        home: Peer,
        number: u64,
        answer: Result<Answer<SharedValue>, ChannelRefusal>,
        place: EffectThread,
    ) {
        let (ended, spent) = deferring(|| self.requests.lock().answered(home, number, answer));
        self.dispose(spent, place);
        if let Some((asker, settled)) = ended {
            self.settle(asker, settled, place);
        }
    }

    /// The value of a take has come, and the references in it cannot be taken: the value goes back.
    pub(super) fn give_back(&self, home: Peer, number: u64, error: RefError) {
        let mut requests = self.requests.lock();
        let Some(channel) = requests.channel(home, number) else {
            return;
        };
        let (request, asker) = requests.cancel(home, number);
        drop(requests);
        self.tell(channel, request);
        if let Some(asker) = asker {
            let report = Failure::from_error(error).into_report();
            self.settle(asker, Err(ChannelRefusal::Unreadable(report)), EffectThread::Link);
        }
    }

    /// A process is dead, and all channels there.
    pub(super) fn home_died(&self, home: Peer) {
        let lost = self.requests.lock().died(home);
        for (asker, settled) in lost {
            self.settle(asker, settled, EffectThread::Link);
        }
    }
}
