//! The agent's answers to other processes of its host, and all letters about stores.

use std::sync::Arc;

use selvedge_cluster::peer::Peer;
use selvedge_objects::store::{StoreError, StoreEvent, StoreId};
use selvedge_objects::transfer::CopyName;

use super::message::{LentSpot, StoreMessage, TRANSFERS};
use super::questions::StoreQuestion;
use super::stores::Stores;
use crate::hub::post::Letter;

impl Stores {
    /// Says something to a process that waits for it.
    fn tell(&self, to: Peer, message: &StoreMessage) {
        let sent = self.say(to, message);
        self.post().told(to, sent);
    }

    /// A letter has arrived.
    pub(crate) fn received(self: &Arc<Self>, from: Peer, letter: Letter) {
        if letter.service == TRANSFERS {
            return self.transfers().received(from, letter);
        }
        let message = match postcard::from_bytes(&letter.head) {
            Ok(message) => message,
            Err(error) => {
                let why = format!("it sent a letter about a store that cannot be read: {error}");
                return self.post().cut(from, why);
            }
        };
        match message {
            StoreMessage::FindAgent { host } => self.find_agent(from, host),
            StoreMessage::Agent { agent, options } => self.agent_is(from, agent, options),
            StoreMessage::Enter { pid } => self.entered(from, pid),
            StoreMessage::Reserve { question, bytes } => self.reserve(from, question, bytes),
            StoreMessage::Lent { question, lent } => self.lent(from, question, lent),
            StoreMessage::Open {
                question,
                name,
                owner,
            } => self.open_for(from, question, name, owner),
            StoreMessage::Granted { question, spot } => self.granted(from, question, spot),
            StoreMessage::Fill {
                question,
                object,
                number,
                owner,
            } => {
                let name = CopyName { maker: from, number };
                self.fill_for(from, question, object, (name, owner));
            }
            StoreMessage::Filled { question, at } => {
                if let Some(StoreQuestion::Copy(then)) = self.answered(from, question) {
                    then(Some(at));
                }
            }
            StoreMessage::Abandon { number } => {
                self.transfers().abandon(from, CopyName { maker: from, number });
            }
            StoreMessage::Refused { question, error } => self.refused(from, question, error),
            StoreMessage::Abort { object } => self.own_event(StoreEvent::Abort { by: from, object }),
            StoreMessage::Close { object, grant } => {
                let by = from;
                self.own_event(StoreEvent::Close { by, object, grant });
            }
        }
    }

    /// Another process asks for memory. It has the store of this process made, if it is the first one to put something.
    fn reserve(self: &Arc<Self>, from: Peer, question: u64, bytes: u64) {
        let this = Arc::clone(self);
        let then = move |lent: Result<LentSpot, StoreError>| {
            let message = match lent {
                Ok(lent) => StoreMessage::Lent { question, lent },
                Err(error) => StoreMessage::Refused { question, error },
            };
            this.tell(from, &message);
        };
        match self.is_of_host(from).then(|| self.own_store()) {
            Some(Ok(host)) => host.borrow_for(from, bytes, then),
            Some(Err(error)) => then(Err(error)),
            None => then(Err(StoreError::NoStore)),
        }
    }

    /// Another process of this host wants an object.
    fn open_for(self: &Arc<Self>, from: Peer, question: u64, name: CopyName, owner: Peer) {
        let this = Arc::clone(self);
        let refuse = move |error| this.tell(from, &StoreMessage::Refused { question, error });
        // The owner is said by whoever asks, and is asked then.
        if !self.is_of_host(from) || !self.is_living(owner) {
            return refuse(StoreError::NoStore);
        }
        let this = Arc::clone(self);
        self.transfers().open(name, owner, move |held| match held {
            Err(error) => refuse(error),
            Ok(held) => held.open_for(from, move |granted| match granted {
                Err(error) => refuse(error),
                Ok(spot) => {
                    let granted = StoreMessage::Granted {
                        question,
                        spot: spot.clone(),
                    };
                    let sent = this.say(from, &granted);
                    if sent.is_err() {
                        this.release(from, &spot);
                    }
                    this.post().told(from, sent);
                }
            }),
        });
    }

    /// Another process of this host has filled an object for an owner on another one.
    fn fill_for(
        self: &Arc<Self>,
        from: Peer,
        question: u64,
        object: StoreId,
        (name, owner): (CopyName, Peer),
    ) {
        if !self.is_living(owner) {
            let error = StoreError::OwnerLost;
            return self.tell(from, &StoreMessage::Refused { question, error });
        }
        let Some(held) = self.seal(from, object) else {
            let why = "it seals an object in the store that it has not borrowed".to_owned();
            return self.post().cut(from, why);
        };
        let this = Arc::clone(self);
        self.transfers().file(name, owner, held, move |at| {
            let message = match at {
                Some(at) => StoreMessage::Filled { question, at },
                None => StoreMessage::Refused {
                    question,
                    error: StoreError::Gone,
                },
            };
            this.tell(from, &message);
        });
    }
}
