//! The side of the process where a channel lives: letters come in, and its queue takes steps.

use std::sync::{Arc, Weak};

use selvedge_cluster::peer::Peer;
use selvedge_objects::channel::{Answer, Request, Wish};
use selvedge_objects::refs::{Parcel, RefError, RefId};

use super::cell::{ChannelCell, Stepped};
use super::error::RemoteChannelError;
use super::inbox::InboxKey;
use super::message::{ChannelMessage, ChannelRefusal};
use super::service::{Incoming, RemoteChannels};
use super::value::{ChannelValue, EncodedValue, SharedValue};
use crate::body::Body;
use crate::failure::Failure;
use crate::hub::post::Letter;
use crate::reference::effect::EffectThread;
use crate::reference::references::Object;

/// The channel of an object.
enum Found {
    Channel(Arc<ChannelCell>),
    /// The process that makes the channel is still to be heard of.
    ToCome,
    Nothing,
}

/// The fate of a request that was served.
enum ServedRequest {
    Stepped(Arc<ChannelCell>, Stepped),
    Refused(u64, ChannelRefusal),
    Ignored(Request<SharedValue>),
}

impl RemoteChannels {
    /// A letter has arrived.
    pub(crate) fn received(&self, from: Peer, letter: Letter) {
        match postcard::take_from_bytes(&letter.head) {
            Ok((message, [])) => self.on_link(|| self.message(from, message, letter.body)),
            Ok((_, _)) => self.cut(from, "with bytes behind it"),
            Err(error) => self.cut(from, &error.to_string()),
        }
    }

    fn cut(&self, from: Peer, why: &str) {
        let why = format!("it sent a letter about channels that cannot be read: {why}");
        self.post.cut(from, why);
    }

    /// A process is dead: its requests end, what it has not acknowledged goes back, and the channels there are lost.
    pub(crate) fn died(&self, peer: Peer) {
        self.on_link(|| {
            self.inbox.lock().died(peer);
            let living: Vec<_> = self.living.lock().values().filter_map(Weak::upgrade).collect();
            for cell in living {
                self.step(&cell, EffectThread::Link, |home| home.dead(peer));
            }
            self.home_died(peer);
            // Channels that it was to make will never be.
            self.look_at(|channel| channel.creator == peer);
        });
    }

    fn message(&self, from: Peer, message: ChannelMessage, body: Body) {
        match message {
            ChannelMessage::Make { parcel, capacity } => self.make_for(from, parcel, capacity),
            ChannelMessage::Asked { channel, request } => self.asked(from, channel, request, body),
            ChannelMessage::Answered { number, answer } => self.answer_arrived(from, number, answer, body),
        }
    }

    fn make_for(&self, from: Peer, parcel: Parcel, capacity: u64) {
        let Parcel::Keep { id } = parcel else {
            return self.cut(from, "it makes a channel under a name that exists");
        };
        let capacity = usize::try_from(capacity).unwrap_or(usize::MAX);
        let (me, references) = ((self, &self.this), &self.references);
        references.arrived_at(me, from, vec![parcel], move |this, accepted| {
            if accepted.is_ok() {
                this.fill(id, capacity);
                this.look_at(|channel| channel == id);
            }
        });
    }

    fn asked(&self, from: Peer, channel: RefId, request: Request<Vec<Parcel>>, body: Body) {
        let key = InboxKey { channel, from };
        let Ok(ticket) = self.inbox.lock().arrive(key) else {
            return self.cut(from, "too many of its requests wait");
        };
        let number = request.number;
        let parcels = match &request.wish {
            Wish::Put(parcels) => parcels.clone(),
            _ => Vec::new(),
        };
        self.with_references(from, parcels, body, move |this, value| {
            let incoming = value.map(|value| request.map(|_| value));
            let incoming = incoming.map_err(|error| {
                let report = Failure::from_error(error).into_report();
                (number, ChannelRefusal::Unreadable(report))
            });
            this.inbox.lock().ready(key, ticket, incoming);
            this.serve(key);
        });
    }

    fn answer_arrived(
        &self,
        from: Peer,
        number: u64,
        answer: Result<Answer<Vec<Parcel>>, ChannelRefusal>,
        body: Body,
    ) {
        let parcels = match &answer {
            Ok(Answer::Value(parcels)) => parcels.clone(),
            _ => Vec::new(),
        };
        self.with_references(from, parcels, body, move |this, value| match value {
            Ok(value) => {
                let answer = answer.map(|answer| answer.map(|_| value));
                this.answered(from, number, answer, EffectThread::Link);
            }
            Err(error) => this.give_back(from, number, error),
        });
    }

    /// Goes on with a value as soon as the references in it have come to rest.
    fn with_references(
        &self,
        from: Peer,
        parcels: Vec<Parcel>,
        body: Body,
        then: impl FnOnce(&RemoteChannels, Result<SharedValue, RefError>) + Send + 'static,
    ) {
        if parcels.is_empty() {
            let handles = Vec::new();
            return then(self, Ok(ChannelValue::encoded(EncodedValue { body, handles })));
        }
        let this = self.this.clone();
        self.references.arrived(from, parcels, move |handles| {
            let Some(this) = this.upgrade() else { return };
            this.on_link(|| {
                let value = handles.map(|handles| ChannelValue::encoded(EncodedValue { body, handles }));
                then(&this, value);
            });
        });
    }

    /// Serves the requests that wait for these channels, as far as it can.
    fn look_at(&self, is_meant: impl Fn(RefId) -> bool) {
        let keys = self.inbox.lock().keys(is_meant);
        keys.into_iter().for_each(|key| self.serve(key));
    }

    /// Serves the requests of a process to a channel, as far as it can.
    fn serve(&self, key: InboxKey) {
        if !self.inbox.lock().begin(key) {
            return;
        }
        loop {
            let found = self.find(key.channel);
            let mut inbox = self.inbox.lock();
            let next = match found {
                Found::ToCome => None,
                _ => inbox.next(key),
            };
            let Some(incoming) = next else {
                if inbox.end(key) {
                    return;
                }
                continue;
            };
            // Under the lock of the inbox, so that the death of the process finds the request there or in the channel.
            let served = serve_one(found, key.from, incoming);
            drop(inbox);
            self.follow(key, served);
        }
    }

    fn find(&self, channel: RefId) -> Found {
        match self.references.object(channel) {
            Object::Content(Ok(content)) => content.get().map_or(Found::Nothing, Found::Channel),
            Object::Content(Err(_)) | Object::Unknown => Found::Nothing,
            Object::Empty => Found::ToCome,
        }
    }

    fn follow(&self, key: InboxKey, served: ServedRequest) {
        match served {
            ServedRequest::Stepped(cell, stepped) => self.after_step(&cell, stepped, EffectThread::Link),
            ServedRequest::Refused(number, refusal) if key.from == self.me() => {
                self.answered(key.from, number, Err(refusal), EffectThread::Link);
            }
            ServedRequest::Refused(number, refusal) => {
                self.send_answer((key.channel, key.from), number, Err(refusal))
            }
            ServedRequest::Ignored(request) => self.on_link(|| drop(request)),
        }
    }

    /// The values of a channel of this process.
    ///
    /// # Errors
    /// [`RemoteChannelError::NotHere`], [`RemoteChannelError::Gone`].
    pub(super) fn snapshot(&self, channel: RefId) -> Result<Vec<SharedValue>, RemoteChannelError> {
        if channel.owner != self.me() {
            return Err(RemoteChannelError::NotHere { channel });
        }
        match self.find(channel) {
            Found::Channel(cell) => Ok(cell.snapshot()),
            // The channel is about to be made, so nothing is in it.
            Found::ToCome => Ok(Vec::new()),
            Found::Nothing => Err(RemoteChannelError::Gone { channel }),
        }
    }

    /// A request of this process to a channel of this process. User code may run on this thread.
    pub(super) fn ask_here(&self, channel: RefId, request: Request<SharedValue>) {
        if let Found::Channel(cell) = self.find(channel) {
            let me = self.me();
            return self.step(&cell, EffectThread::Caller, |home| home.request(me, request));
        }
        // The channel is about to be made, or gone.
        let from = self.me();
        let key = InboxKey { channel, from };
        let ticket = self.inbox.lock().arrive(key);
        match ticket {
            Ok(ticket) => {
                self.inbox.lock().ready(key, ticket, Ok(request));
                self.serve(key);
            }
            Err(_) => self.follow(key, serve_one(Found::Nothing, key.from, Ok(request))),
        }
    }

    /// A request of this process to a channel of this process, which comes back unless it is answered at once. User code may
    /// run on this thread.
    pub(super) fn ask_here_at_once(
        &self,
        channel: RefId,
        request: Request<SharedValue>,
    ) -> Option<Request<SharedValue>> {
        let cell = match self.find(channel) {
            Found::Channel(cell) => cell,
            Found::ToCome => return Some(request),
            Found::Nothing => {
                self.ask_here(channel, request);
                return None;
            }
        };
        let (me, number, unanswered) = (self.me(), request.number, request.clone());
        let mut is_answered = false;
        let stepped = cell.step(|home| {
            let mut replies = home.request(me, request);
            is_answered = replies
                .iter()
                .any(|reply| (reply.to, reply.number) == (me, number));
            if !is_answered {
                let wish = Wish::Cancel;
                replies.extend(home.request(me, Request { number, wish }));
            }
            replies
        });
        // Whoever takes the value has it alone.
        let unanswered = (!is_answered).then_some(unanswered);
        self.after_step(&cell, stepped, EffectThread::Caller);
        unanswered
    }
}

/// Has a channel take a request.
fn serve_one(found: Found, from: Peer, incoming: Incoming) -> ServedRequest {
    match (found, incoming) {
        (Found::Channel(cell), Ok(request)) => {
            let stepped = cell.step(|home| home.request(from, request));
            ServedRequest::Stepped(cell, stepped)
        }
        (_, Err((number, refusal))) => ServedRequest::Refused(number, refusal),
        (_, Ok(request)) if request.wish.has_answer() => {
            ServedRequest::Refused(request.number, ChannelRefusal::Gone)
        }
        // What was taken from a channel that is gone needs no acknowledgement.
        (_, Ok(request)) => ServedRequest::Ignored(request),
    }
}
