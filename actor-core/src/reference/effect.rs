//! Effects: the work that follows a step of the count, when the lock is let go.

use selvedge_cluster::peer::Peer;
use selvedge_objects::refs::{Bundle, Leak, RefError, RefId};

use super::content::Content;
use super::fetch::Fetched;
use super::open_questions::Askers;
use super::waiting_letter::WaitingLetter;
use crate::hub::delivering::is_delivering;
use crate::promise::Promise;

/// The thread that performs effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EffectThread {
    /// A thread of the user, or one that runs user code.
    Caller,
    /// The thread that reads links: no user code may run there.
    Link,
}

impl EffectThread {
    /// The kind of the calling thread.
    pub(crate) fn here() -> Self {
        match is_delivering() {
            true => EffectThread::Link,
            false => EffectThread::Caller,
        }
    }
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
    Tell(Askers, Fetched),
    /// Gives those who wait here the content of an object.
    Settle(Vec<Promise<Content>>, Content),
    /// Answers a question of another process.
    Answer {
        to: Peer,
        question: u64,
        id: RefId,
        content: Content,
    },
    /// Answers a question of another process about an object that was freed.
    Refuse { to: Peer, question: u64 },
    /// Refuses a question of a process that asks too much.
    RefuseFetch {
        to: Peer,
        question: u64,
        error: RefError,
    },
    /// Tells whoever makes objects that nobody holds this one any more.
    Freed(RefId),
    /// Drops the content of an object.
    Drop(Content),
    /// Tells those who wait here that an object was freed.
    Forget(Vec<Promise<Content>>),
}
