//! Questions of this process to the agent of its host, and their answers.

use std::sync::{Arc, Weak};

use selvedge_cluster::peer::Peer;
use selvedge_objects::store::StoreError;
use selvedge_objects::transfer::{CopyAt, CopyFacts, CopyName};

use super::borrowed::{Borrowed, BorrowedFrom, Sealed};
use super::loan::StoreLoan;
use super::message::{FarObject, LentSpot, ObjectSpot, StoreMessage};
use super::pin::ObjectPin;
use super::stores::{StorePlace, Stores};
use crate::hub::post::PostError;
use crate::promise::{Answer, Promise, promise_by_letter};

/// A continuation for when an object is there. Runs no user code.
type ThenPin = Box<dyn FnOnce(Result<Arc<ObjectPin>, StoreError>) + Send>;

/// A question to the agent.
pub(super) enum StoreQuestion {
    /// For memory.
    Memory(Promise<Result<Borrowed, StoreError>>),
    /// For an object of this owner.
    Object(CopyName, Peer, ThenPin),
    /// Whether an object is sealed.
    Copy(Box<dyn FnOnce(Option<CopyAt>) + Send>),
}

impl Stores {
    /// Asks for memory for an object.
    pub(crate) fn borrow(&self, from: &StorePlace, bytes: u64) -> Answer<Result<Borrowed, StoreError>> {
        let agent = match from {
            StorePlace::Here(host) => return host.borrow_here(bytes),
            StorePlace::Agent(agent) => *agent,
            StorePlace::Nowhere => return Answer::ready(Err(StoreError::Gone)),
        };
        let (promise, answer) = promise_by_letter(self.post().lead());
        self.ask(agent, StoreQuestion::Memory(promise), |question| {
            StoreMessage::Reserve { question, bytes }
        });
        answer
    }

    /// Asks the agent something. Returns whether the question was sent.
    fn ask(&self, agent: Peer, what: StoreQuestion, message: impl FnOnce(u64) -> StoreMessage) -> bool {
        let question = self.questions.lock().begin(agent, what);
        let Err(error) = self.say(agent, &message(question)) else {
            return true;
        };
        if let Some(asked) = self.answered(agent, question) {
            self.not_asked(agent, asked, &error);
        }
        false
    }

    fn not_asked(&self, agent: Peer, asked: StoreQuestion, error: &PostError) {
        match error {
            PostError::Dead(_) | PostError::NoSuchPeer(_) | PostError::NoLink { .. } => {
                // Its death is told soon.
                self.agent_died(agent);
                self.ask_another(asked);
            }
            PostError::Full { .. } | PostError::TooLarge { .. } | PostError::Away(_) => {
                self.refuse(asked, StoreError::Gone);
            }
        }
    }

    /// The agent that was asked is dead, or cannot be told: what it was asked for may be asked of the next one.
    fn ask_another(&self, asked: StoreQuestion) {
        match asked {
            StoreQuestion::Object(name, owner, then) => self.open_copy(name, owner, then),
            asked => self.refuse(asked, StoreError::Gone),
        }
    }

    /// Asks for an object that this process has a reference to: the agent gets it from another host, if it does not have it.
    pub(crate) fn open_copy(
        &self,
        name: CopyName,
        owner: Peer,
        then: impl FnOnce(Result<Arc<ObjectPin>, StoreError>) + Send + 'static,
    ) {
        let this = Weak::clone(&self.this);
        self.with_agent(move |agent| match (this.upgrade(), agent) {
            (Some(this), Some(agent)) if agent == this.post().me() => {
                this.transfers().open(name, owner, move |held| match held {
                    Ok(held) => held.pin_here(then),
                    Err(error) => then(Err(error)),
                });
            }
            (Some(this), Some(agent)) => {
                let what = StoreQuestion::Object(name, owner, Box::new(then));
                this.ask(agent, what, |question| StoreMessage::Open {
                    question,
                    name,
                    owner,
                });
            }
            _ => then(Err(StoreError::NoStore)),
        });
    }

    /// Seals an object that this process has filled for an owner on another host.
    pub(crate) fn file(
        &self,
        sealed: Sealed,
        owner: Peer,
        facts: CopyFacts,
    ) -> Answer<Result<FarObject, StoreError>> {
        let name = self.next_name();
        let (promise, answer) = promise_by_letter(self.post().lead());
        let this = Weak::clone(&self.this);
        let then = move |at: Option<CopyAt>| {
            if let Some(this) = this.upgrade() {
                let object = at.map(|at| FarObject { name, facts, at });
                if let Some(far) = object.as_ref().filter(|_| promise.is_abandoned()) {
                    this.abandon(far);
                }
                this.keep(promise, object.ok_or(StoreError::Gone));
            }
        };
        match sealed {
            Sealed::Here(held) => self.transfers().file(name, owner, held, then),
            Sealed::There(loan) => {
                let (what, object) = (StoreQuestion::Copy(Box::new(then)), loan.object());
                let is_told = self.ask(loan.agent(), what, |question| StoreMessage::Fill {
                    question,
                    object,
                    number: name.number,
                    owner,
                });
                if is_told {
                    loan.told();
                }
            }
        }
        answer
    }

    /// The owner was not told of an object that this process has filled.
    pub(crate) fn abandon(&self, far: &FarObject) {
        let (me, number) = (self.post().me(), far.name.number);
        if far.at.agent == me {
            return self.transfers().abandon(me, far.name);
        }
        let sent = self.say(far.at.agent, &StoreMessage::Abandon { number });
        self.post().told(far.at.agent, sent);
    }

    /// The agent has lent memory. It goes back if this process cannot map it.
    pub(super) fn lent(&self, agent: Peer, question: u64, lent: LentSpot) {
        let object = lent.object;
        let memory = self.mappings.of(agent, &lent.memory);
        let loan = StoreLoan::new(agent, object, self.shared_post());
        let Some(StoreQuestion::Memory(promise)) = self.answered(agent, question) else {
            return;
        };
        let borrowed = match memory {
            Ok(memory) => Ok(Borrowed::new(lent, BorrowedFrom::Agent { loan, memory })),
            Err(error) => Err(StoreError::Memory {
                why: error.to_string(),
            }),
        };
        self.keep(promise, borrowed);
    }

    /// The agent has granted an object.
    pub(super) fn granted(&self, agent: Peer, question: u64, spot: ObjectSpot) {
        // From here on the pin ends with this, also if nobody has asked.
        let pin = self.pin(agent, spot);
        if let Some(StoreQuestion::Object(_, _, then)) = self.answered(agent, question) {
            then(Ok(pin));
        }
    }

    /// Takes a question that was asked of this process.
    pub(super) fn answered(&self, from: Peer, question: u64) -> Option<StoreQuestion> {
        self.questions.lock().end(from, question)
    }

    pub(super) fn refused(&self, from: Peer, question: u64, error: StoreError) {
        if let Some(asked) = self.answered(from, question) {
            self.refuse(asked, error);
        }
    }

    fn refuse(&self, asked: StoreQuestion, error: StoreError) {
        match asked {
            StoreQuestion::Memory(promise) => self.keep(promise, Err(error)),
            StoreQuestion::Object(_, _, then) => then(Err(error)),
            StoreQuestion::Copy(then) => then(None),
        }
    }

    /// The agent that was asked is dead.
    pub(super) fn ask_others(&self, agent: Peer) {
        // Bound by a name of its own, so that the lock is let go.
        let of_dead = self.questions.lock().extract_of(agent);
        for asked in of_dead {
            self.ask_another(asked);
        }
    }

    /// The process ends: whoever waits is told by the end of its promise.
    pub(super) fn end_questions(&self) {
        let ended = self.questions.lock().extract_all();
        drop(ended);
    }
}
