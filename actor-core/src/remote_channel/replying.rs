//! The answers of a channel of this process, to this process and to others.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use selvedge_cluster::peer::Peer;
use selvedge_objects::channel::{Answer, ChannelHome, Reply, Request, Wish};
use selvedge_objects::refs::{Parcel, RefError, RefId};

use super::cell::{ChannelCell, Replies, Stepped};
use super::message::{ChannelMessage, ChannelRefusal};
use super::service::RemoteChannels;
use super::value::{EncodedValue, SharedValue};
use crate::body::Body;
use crate::failure::Failure;
use crate::hub::post::PostError;
use crate::reference::effect::EffectThread;
use crate::reference::unsaid::Unsaid;

impl RemoteChannels {
    /// Takes a step of a channel, and gives the answers that follow.
    pub(super) fn step(
        &self,
        cell: &Arc<ChannelCell>,
        place: EffectThread,
        step: impl FnOnce(&mut ChannelHome<SharedValue>) -> Replies,
    ) {
        self.after_step(cell, cell.step(step), place);
    }

    /// Does what follows a step.
    pub(super) fn after_step(&self, cell: &Arc<ChannelCell>, stepped: Stepped, place: EffectThread) {
        self.dispose(stepped.spent, place);
        self.reply(cell, stepped.replies.into(), place);
    }

    /// Gives answers in their order. A value that is still to be encoded, and all answers after it, wait for a thread that
    /// may run user code.
    fn reply(&self, cell: &Arc<ChannelCell>, mut replies: VecDeque<Reply<SharedValue>>, place: EffectThread) {
        while let Some(reply) = replies.pop_front() {
            if reply.to == self.me() {
                self.answered(reply.to, reply.number, Ok(reply.answer), place);
            } else if place == EffectThread::Link && is_to_be_encoded(&reply) {
                replies.push_front(reply);
                let errand = Encoding {
                    service: self.this.clone(),
                    cell: Arc::clone(cell),
                    replies,
                };
                return self.helpers.run(Box::new(|| errand.run()));
            } else {
                let unsent = self.send_reply(cell, reply);
                self.dispose(unsent.spent, place);
                replies.extend(unsent.replies);
            }
        }
    }

    /// Gives answers when no thread can encode values: their takers are told, and the values stay.
    fn reply_unencoded(&self, cell: &Arc<ChannelCell>, mut replies: VecDeque<Reply<SharedValue>>) {
        while let Some(unsent) = replies.iter().position(is_to_be_encoded) {
            let later = replies.split_off(unsent);
            self.reply(cell, std::mem::replace(&mut replies, later), EffectThread::Link);
            let Some(Reply { to, number, answer }) = replies.pop_front() else {
                return;
            };
            let report =
                Failure::from_error("the process of the channel has no thread to encode it").into_report();
            self.send_answer((cell.id(), to), number, Err(ChannelRefusal::Unreadable(report)));
            let stepped = cell.step(|home| home.not_sent(to, number));
            self.on_link(|| drop(answer));
            self.dispose(stepped.spent, EffectThread::Link);
            replies.extend(stepped.replies);
        }
        self.reply(cell, replies, EffectThread::Link);
    }

    /// Sends an answer. Returns the step that follows if it was not sent.
    fn send_reply(&self, cell: &ChannelCell, reply: Reply<SharedValue>) -> Stepped {
        let Reply { to, number, answer } = reply;
        let Answer::Value(value) = answer else {
            self.send_answer((cell.id(), to), number, Ok(answer.map(|_| Vec::new())));
            return Stepped::default();
        };
        let Err((failure, is_lasting)) = self.send_value((cell.id(), to), number, &value) else {
            return Stepped::default();
        };
        let refusal = ChannelRefusal::Unreadable(failure.into_report());
        self.send_answer((cell.id(), to), number, Err(refusal));
        cell.step(|home| match is_lasting {
            // Whoever takes next would get the same error.
            true => home.request(to, acknowledged(number)),
            false => home.not_sent(to, number),
        })
    }

    /// Sends a value, with the references in it. The value is encoded if it is not yet.
    ///
    /// # Errors
    /// The reason that it was not sent, and whether it cannot be passed to any process at any time.
    fn send_value(
        &self,
        (channel, to): (RefId, Peer),
        number: u64,
        value: &SharedValue,
    ) -> Result<(), (Failure, bool)> {
        let encoded = value.to_encoded().map_err(|failure| (failure, true))?;
        let EncodedValue { body, handles } = encoded;
        let sent = self.references.send(to, None, &handles, |parcels| {
            let answer = Ok(Answer::Value(parcels));
            ChannelMessage::Answered { number, answer }.letter(channel, body)
        });
        sent.map(drop).map_err(|error| {
            let is_lasting = matches!(
                error,
                Unsaid::Reference(RefError::Lost(_)) | Unsaid::Post(PostError::TooLarge { .. })
            );
            (error.into_failure(), is_lasting)
        })
    }

    /// Sends an answer without a value, which the process must have.
    pub(super) fn send_answer(
        &self,
        (channel, to): (RefId, Peer),
        number: u64,
        answer: Result<Answer<Vec<Parcel>>, ChannelRefusal>,
    ) {
        let letter = ChannelMessage::Answered { number, answer }.letter(channel, Body::EMPTY);
        let sent = self.post.send(to, letter);
        self.post.told(to, sent);
    }
}

/// Answers that wait for a thread on which values are encoded.
struct Encoding {
    service: Weak<RemoteChannels>,
    cell: Arc<ChannelCell>,
    replies: VecDeque<Reply<SharedValue>>,
}

impl Encoding {
    fn run(mut self) {
        if let Some(service) = self.service.upgrade() {
            service.reply(
                &self.cell,
                std::mem::take(&mut self.replies),
                EffectThread::Caller,
            );
        }
    }
}

impl Drop for Encoding {
    fn drop(&mut self) {
        // There was no thread.
        if !self.replies.is_empty()
            && let Some(service) = self.service.upgrade()
        {
            service.reply_unencoded(&self.cell, std::mem::take(&mut self.replies));
        }
    }
}

fn is_to_be_encoded(reply: &Reply<SharedValue>) -> bool {
    matches!(&reply.answer, Answer::Value(value) if value.is_here())
}

fn acknowledged(number: u64) -> Request<SharedValue> {
    let wish = Wish::Acknowledge;
    Request { number, wish }
}
