//! Effects: the work that follows a step of the count, when the lock is let go.

use std::sync::Arc;

use bytes::Bytes;
use selvedge_channels::dispose;
use selvedge_cluster::frame::Class;
use selvedge_cluster::peer::Peer;
use selvedge_objects::refs::{Bundle, Leak, REFERENCES, RefError};

use super::content::Content;
use super::fetch::FetchMessage;
use super::table::{Fetched, References, WaitingLetter, encoded};
use super::transit;
use crate::hub::post::Letter;
use crate::promise::Promise;

/// The thread that performs effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A thread of the user, or one that runs user code.
    Caller,
    /// The thread that reads links: no user code may run there.
    Link,
}

pub(super) enum Effect {
    /// Sends messages about references. They may be lost.
    Send { to: Peer, bundle: Bundle },
    /// Goes on with a letter whose references have come to rest.
    Run(WaitingLetter),
    /// Refuses a letter.
    RefuseLetter(WaitingLetter, RefError),
    /// Drops a letter whose sender is dead.
    Abandon(WaitingLetter),
    /// Tells what is left at the end.
    End(Promise<Vec<Leak>>, Vec<Leak>),
    /// Tells whether an owner has listed this process.
    Confirm(Vec<Promise<bool>>, bool),
    /// Answers a question that was asked here.
    Tell(Promise<Fetched>, Fetched),
    /// Gives those who wait here the content of an object.
    Settle(Vec<Promise<Content>>, Content),
    /// Answers a question of another process.
    Answer {
        to: Peer,
        question: u64,
        content: Content,
    },
    /// Answers a question of another process about an object that was freed.
    Refuse { to: Peer, question: u64 },
    /// Drops the content of an object.
    Drop(Content),
    /// Tells those who wait here that an object was freed.
    Forget(Vec<Promise<Content>>),
}

impl Effect {
    pub(super) fn perform(self, table: &Arc<References>, place: Place) {
        match self {
            Effect::Send { to, bundle } => {
                let letter = Letter {
                    service: REFERENCES,
                    class: Class::Loose,
                    head: encoded(&bundle),
                    body: Bytes::new(),
                };
                // What is not sent is asked again later.
                let _ = table.post().send(to, letter);
            }
            Effect::Run(letter) => letter.run(table),
            Effect::RefuseLetter(letter, error) => letter.refuse(error),
            Effect::Abandon(letter) => letter.abandon(table),
            Effect::End(ended, leaks) => ended.keep(leaks),
            Effect::Confirm(waiting, is_listed) => waiting.into_iter().for_each(|it| it.keep(is_listed)),
            Effect::Tell(asker, fetched) => asker.keep(fetched),
            Effect::Settle(waiting, content) => {
                waiting.into_iter().for_each(|it| it.keep(content.clone()));
            }
            Effect::Answer {
                to,
                question,
                content,
            } => {
                let refs = Arc::clone(table);
                let errand = move || answer(&refs, to, question, content);
                table.helpers().run(Box::new(errand));
            }
            Effect::Refuse { to, question } => {
                let _ = table.say(to, &FetchMessage::Freed { question }, Bytes::new());
            }
            Effect::Forget(waiting) => drop(waiting),
            Effect::Drop(content) => match place {
                Place::Caller => dispose(content),
                Place::Link => table.helpers().run(Box::new(|| dispose(content))),
            },
        }
    }
}

/// Encodes the content for another process, with the references in it, and sends it.
fn answer(table: &Arc<References>, to: Peer, question: u64, content: Content) {
    let (message, body, parcels) = match content {
        Err(failure) => (
            FetchMessage::Failed {
                question,
                report: failure.report(),
            },
            Bytes::new(),
            Vec::new(),
        ),
        Ok(value) => {
            let (bytes, handles) = transit::leaving(|| value.to_bytes());
            let passed = bytes.and_then(|bytes| {
                let parcels = table.pass(&handles, to);
                parcels
                    .map(|parcels| (bytes, parcels))
                    .map_err(crate::Failure::from_error)
            });
            match passed {
                Ok((bytes, parcels)) => {
                    let message = FetchMessage::Value {
                        question,
                        parcels: parcels.clone(),
                    };
                    (message, Bytes::from(bytes), parcels)
                }
                Err(failure) => {
                    let report = failure.into_report();
                    (
                        FetchMessage::Unreadable { question, report },
                        Bytes::new(),
                        Vec::new(),
                    )
                }
            }
        }
    };
    if let Err(error) = table.say(to, &message, body) {
        table.not_sent(to, &parcels);
        // The peer may be told why, unless it is gone.
        let report = crate::Failure::from_error(error.to_string()).into_report();
        let _ = table.say(to, &FetchMessage::Unreadable { question, report }, Bytes::new());
    }
}
