//! Letters about references and fetches: what is done when one arrives, and when the count wants one sent.

use std::sync::Arc;

use selvedge_channels::dispose;
use selvedge_cluster::frame::Class;
use selvedge_cluster::peer::Peer;
use selvedge_objects::refs::{Bundle, Event, Parcel, REFERENCES, RefError, RefId};

use super::content::Content;
use super::effect::{Effect, EffectThread};
use super::fetch::{FetchMessage, Fetched, Wish};
use super::handle::Handle;
use super::references::References;
use super::set_value::SetValue;
use super::store_letters::{answer_stored, elsewhere, put, stored};
use super::stored_value::StoredValue;
use super::transit;
use crate::body::Body;
use crate::errand::errand_or;
use crate::failure::Failure;
use crate::hub::post::{Letter, PostError};

/// The receiver of letters about references and fetches.
#[derive(Debug)]
pub(crate) struct ReferenceService<'a>(pub(crate) &'a Arc<References>);

impl ReferenceService<'_> {
    /// A letter has arrived.
    pub(crate) fn received(&self, from: Peer, letter: Letter) {
        let head = &letter.head;
        let read = if letter.service == REFERENCES {
            let bundle = postcard::from_bytes::<Bundle>(head);
            bundle.map(|bundle| self.0.event(EffectThread::Link, Event::Heard { from, bundle }))
        } else {
            postcard::from_bytes(head).map(|message| fetch_message(self.0, from, message, letter.body))
        };
        if let Err(error) = read {
            let why = format!("it sent a letter about references that cannot be read: {error}");
            self.0.post().cut(from, why);
        }
    }

    /// A peer is dead.
    pub(crate) fn died(&self, peer: Peer) {
        // Whatever was passed to the peer is struck off in one step, sent or not.
        self.0.event(EffectThread::Link, Event::Dead(peer));
    }
}

/// Handles a message of a fetch.
fn fetch_message(references: &Arc<References>, from: Peer, message: FetchMessage, body: Body) {
    match message {
        FetchMessage::Ask { question, id } => {
            let event = Event::Fetch { from, question, id };
            references.event(EffectThread::Link, event);
        }
        FetchMessage::Look { question, id } => {
            let is_ready = references.is_made(id);
            tell(references, from, &FetchMessage::Ready { question, is_ready });
        }
        FetchMessage::Create { parcel } => match parcel {
            Parcel::Keep { .. } => drop(references.arrived(from, vec![parcel], |_| {})),
            Parcel::Given { .. } | Parcel::Lent { .. } => {
                let why = "it has a reference held that exists already".to_owned();
                references.post().cut(from, why);
            }
        },
        FetchMessage::Set { question, parcels } => {
            if !matches!(parcels.last(), Some(Parcel::Lent { .. })) {
                let why = "it sets a value without a reference to the object".to_owned();
                return references.post().cut(from, why);
            }
            let table = Arc::clone(references);
            references.arrived(from, parcels, move |handles| match handles {
                Ok(handles) => set(&table, (from, question), body, handles),
                Err(error) => tell(&table, from, &unreadable(question, Failure::from_error(error))),
            });
        }
        FetchMessage::Ready { question, is_ready } => {
            references.answered(from, question, Fetched::Ready(is_ready));
        }
        FetchMessage::Value { question, parcels } => {
            let table = Arc::clone(references);
            references.arrived(from, parcels, move |handles| {
                let fetched = match handles {
                    Ok(handles) => Fetched::Value {
                        bytes: body.to_bytes(),
                        handles,
                    },
                    Err(error) => Fetched::Unreadable(Failure::from_error(error).into_report()),
                };
                table.answered(from, question, fetched);
            });
        }
        FetchMessage::Stored {
            question,
            parcels,
            spot,
        } => stored(references, (from, question), parcels, spot),
        FetchMessage::Elsewhere {
            question,
            parcels,
            name,
        } => elsewhere(references, (from, question), parcels, name),
        FetchMessage::Unstored { question, error } => {
            references.answered(from, question, Fetched::Unstored(error));
        }
        FetchMessage::Put { parcels, place } => put(references, from, parcels, (place, body)),
        FetchMessage::Failed { question, report } => {
            references.answered(from, question, Fetched::Failed(report))
        }
        FetchMessage::Unreadable { question, report } => {
            references.answered(from, question, Fetched::Unreadable(report));
        }
        FetchMessage::Freed { question } => references.answered(from, question, Fetched::Freed),
    }
}

/// Performs an effect.
pub(super) fn perform(table: &Arc<References>, effect: Effect, place: EffectThread) {
    match effect {
        Effect::Send { to, bundle } => {
            let letter = Letter::new(REFERENCES, Class::Loose, &bundle, Body::EMPTY);
            // What is not sent is asked again later, unless there is nobody to ask. A member that is away may come back.
            if let Err(PostError::NoSuchPeer(_)) = table.post().send(to, letter) {
                table.event(place, Event::Unknown(to));
            }
        }
        Effect::Run(letter) => letter.run(&table.as_table()),
        Effect::RefuseLetter(letter, error) => letter.refuse(error),
        Effect::Abandon(letter) => letter.abandon(&table.as_table()),
        Effect::End(ended, leaks) => table.keep_promise(ended, leaks),
        Effect::Confirm(waiting, is_listed) => {
            waiting
                .into_iter()
                .for_each(|it| table.keep_promise(it, is_listed));
        }
        Effect::Tell(askers, fetched) => table.tell(askers, fetched),
        Effect::Settle(waiting, content) => {
            for waiter in waiting {
                match place {
                    EffectThread::Caller => waiter.keep(content.clone()),
                    EffectThread::Link => table.keep_promise(waiter, content.clone()),
                }
            }
        }
        Effect::Answer {
            to,
            question,
            id,
            content,
        } => {
            run_or_refuse(table, (to, question), content, move |refs, content| {
                answer(refs, (to, question), id, content);
            });
        }
        Effect::Refuse { to, question } => {
            tell(table, to, &FetchMessage::Freed { question });
        }
        Effect::RefuseFetch { to, question, error } => {
            tell(table, to, &unreadable(question, Failure::from_error(error)));
        }
        Effect::Forget(waiting) => match place {
            EffectThread::Caller => drop(waiting),
            EffectThread::Link => table.helpers().run(Box::new(|| drop(waiting))),
        },
        Effect::Freed(id) => table.tell_freed(id),
        Effect::Drop(content) => match place {
            EffectThread::Caller => dispose(content),
            EffectThread::Link => table.helpers().run(Box::new(|| dispose(content))),
        },
    }
}

/// Encodes the content for another process, with the references in it, and sends it; or a word, if that is asked for.
fn answer(table: &Arc<References>, (to, question): (Peer, u64), id: RefId, content: Content) {
    let value = match content {
        Ok(value) if Wish::is_value(question) => match value.get::<StoredValue>() {
            Some(stored) => return answer_stored(table, (to, question), (id, value), &stored),
            None => value,
        },
        Ok(_) => {
            let is_ready = true;
            return tell(table, to, &FetchMessage::Ready { question, is_ready });
        }
        Err(failure) => {
            let report = failure.report();
            return tell(table, to, &FetchMessage::Failed { question, report });
        }
    };
    let (body, handles) = transit::leaving(|| value.to_body());
    match body {
        Ok(body) => send_value(table, (to, question), body, &handles),
        Err(failure) => tell(table, to, &unreadable(question, failure)),
    }
}

/// Sends an encoded value, with the references in it.
pub(super) fn send_value(
    table: &Arc<References>,
    (to, question): (Peer, u64),
    body: Body,
    handles: &[Arc<Handle>],
) {
    send_answer(table, (to, question), handles, |parcels| {
        FetchMessage::Value { question, parcels }.letter(body)
    });
}

/// Sends an answer with references. Returns whether it was sent; if not, that is the answer.
pub(super) fn send_answer(
    table: &Arc<References>,
    (to, question): (Peer, u64),
    handles: &[Arc<Handle>],
    letter: impl FnOnce(Vec<Parcel>) -> Letter,
) -> bool {
    let sent = table.send(to, None, handles, letter);
    sent.map_err(|error| tell(table, to, &unreadable(question, error.into_failure())))
        .is_ok()
}

/// Sets a value for another process, and answers. Whoever waits for the value is woken: user code.
fn set(table: &Arc<References>, (to, question): (Peer, u64), body: Body, mut references: Vec<Arc<Handle>>) {
    let Some(object) = references.pop() else { return };
    run_or_refuse(table, (to, question), references, move |refs, references| {
        let value = SetValue::new(body.to_bytes(), references);
        let message = match refs.fill(object.id(), Ok(value.into_object())) {
            Err(RefError::Freed(_)) => FetchMessage::Freed { question },
            set => FetchMessage::Ready {
                question,
                is_ready: set.is_ok(),
            },
        };
        tell(refs, to, &message);
    });
}

/// Has a question answered by user code, which gets a value. If there is no thread for it, that is the answer; but at the end of this
/// process nobody is told: its death is the answer.
fn run_or_refuse<T: Send + 'static>(
    table: &Arc<References>,
    (to, question): (Peer, u64),
    value: T,
    work: impl FnOnce(&Arc<References>, T) + Send + 'static,
) {
    let entrusted = (Arc::clone(table), value);
    let refuse = move |(table, _): (Arc<References>, T)| {
        if !table.is_stopped() && !table.helpers().have_ended() {
            let text =
                "the process where the value lives has no thread for this, or too much work: ask again later";
            let failure = Failure::from_error(text.to_owned());
            tell(&table, to, &unreadable(question, failure));
        }
    };
    let errand = errand_or(entrusted, |(table, value)| work(&table, value), refuse);
    table.helpers().run(errand);
}

/// The answer that a value cannot be read.
pub(super) fn unreadable(question: u64, failure: Failure) -> FetchMessage {
    let report = failure.into_report();
    FetchMessage::Unreadable { question, report }
}

/// Sends an answer without a value.
pub(super) fn tell(table: &References, to: Peer, message: &FetchMessage) {
    let sent = table.post().send(to, message.letter(Body::EMPTY));
    table.post().told(to, sent);
}
