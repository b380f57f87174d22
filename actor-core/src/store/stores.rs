//! The store as a process sees it: its own, if it is the host agent, or that of the agent.

use std::sync::Arc;

use parking_lot::Mutex;
use selvedge_channels::platform::extent_file::ExtentFile;
use selvedge_channels::{SegmentError, SegmentId};
use selvedge_cluster::frame::Class;
use selvedge_cluster::id_map::IdMap;
use selvedge_cluster::peer::{Peer, ProcessId};
use selvedge_objects::store::{StoreError, StoreEvent, StoreId, StoreReport};

use super::borrowed::{Borrowed, BorrowedFrom};
use super::host_store::{HeldObject, HostStore, Wake};
use super::message::{LentSpot, ObjectSpot, STORES, StoreMessage};
use super::options::StoreOptions;
use super::pin::{ObjectPin, PinFrom};
use crate::body::Body;
use crate::hub::post::{Letter, Post, PostError};
use crate::promise::{Answer, Promise, promise_by_letter};
use crate::remote::threads::Threads;

/// The store of this host, for this process.
pub(crate) struct Stores {
    post: Arc<dyn Post>,
    threads: Threads,
    wake: Wake,
    options: Mutex<StoreOptions>,
    /// The store that this process has.
    host: Mutex<OwnStore>,
    /// The memory of others.
    mapped: Mutex<IdMap<Peer, Arc<ExtentFile>>>,
    questions: Mutex<Questions>,
}

enum OwnStore {
    NotNeeded,
    Open(Arc<HostStore>),
    Closed,
}

#[derive(Default)]
struct Questions {
    open: IdMap<u64, (Peer, Promise<Result<Borrowed, StoreError>>)>,
    numbers: u64,
}

/// The place where this process puts large objects.
pub(crate) enum StorePlace {
    /// Into its own store.
    Here(Arc<HostStore>),
    /// Into that of the host agent.
    Agent(Peer),
    /// Nowhere: the agent is on another host, or processes share no memory.
    Nowhere,
}

impl Stores {
    pub(crate) fn new(post: Arc<dyn Post>, threads: &Threads, wake: Wake) -> Arc<Self> {
        Arc::new(Stores {
            post,
            threads: threads.clone(),
            wake,
            options: Mutex::default(),
            host: Mutex::new(OwnStore::NotNeeded),
            mapped: Mutex::default(),
            questions: Mutex::default(),
        })
    }

    pub(super) fn post(&self) -> &dyn Post {
        self.post.as_ref()
    }

    /// Sets the sizes of the store, until it is made.
    pub(crate) fn set_options(&self, options: StoreOptions) {
        *self.options.lock() = options;
    }

    /// The place where this process puts large objects. The agent's store is made when it is needed first.
    ///
    /// # Errors
    /// [`StoreError::Memory`], [`StoreError::Gone`] once this process ends.
    pub(crate) fn place(&self) -> Result<StorePlace, StoreError> {
        let me = self.post.me();
        if me.process != ProcessId::HEAD {
            let agent = self.post.peer(ProcessId::HEAD);
            let agent = agent.filter(|agent| self.post.is_near(*agent));
            return Ok(agent.map_or(StorePlace::Nowhere, StorePlace::Agent));
        }
        let mut host = self.host.lock();
        match &*host {
            OwnStore::Open(open) => Ok(StorePlace::Here(Arc::clone(open))),
            OwnStore::Closed => Err(StoreError::Gone),
            OwnStore::NotNeeded => {
                let options = self.options.lock().clone();
                match HostStore::create(me, &options, &self.threads, Arc::clone(&self.wake)) {
                    Ok(made) => {
                        *host = OwnStore::Open(Arc::clone(&made));
                        Ok(StorePlace::Here(made))
                    }
                    Err(SegmentError::Unsupported) => Ok(StorePlace::Nowhere),
                    Err(error) => Err(StoreError::Memory {
                        why: error.to_string(),
                    }),
                }
            }
        }
    }

    /// The store of this process, if it has been needed.
    fn own(&self) -> Option<Arc<HostStore>> {
        match &*self.host.lock() {
            OwnStore::Open(open) => Some(Arc::clone(open)),
            OwnStore::NotNeeded | OwnStore::Closed => None,
        }
    }

    /// The contents of this process's store; nothing, if it has none.
    pub(crate) fn report(&self) -> StoreReport {
        self.own().map_or_else(StoreReport::default, |own| own.report())
    }

    /// Asks for memory for an object.
    pub(crate) fn borrow(&self, from: &StorePlace, bytes: u64) -> Answer<Result<Borrowed, StoreError>> {
        let agent = match from {
            StorePlace::Here(host) => return host.borrow_here(bytes),
            StorePlace::Agent(agent) => *agent,
            StorePlace::Nowhere => return Answer::ready(Err(StoreError::Gone)),
        };
        let (promise, answer) = promise_by_letter(self.post.lead());
        let question = {
            let mut questions = self.questions.lock();
            questions.numbers += 1;
            let question = questions.numbers;
            questions.open.insert(question, (agent, promise));
            question
        };
        if self
            .say(agent, &StoreMessage::Reserve { question, bytes })
            .is_err()
        {
            self.answered(agent, question, Err(StoreError::Gone));
        }
        answer
    }

    /// The memory of another process.
    ///
    /// # Errors
    /// [`SegmentError`].
    pub(super) fn mapped(&self, agent: Peer, id: &SegmentId) -> Result<Arc<ExtentFile>, SegmentError> {
        let mut mapped = self.mapped.lock();
        if let Some(memory) = mapped.get(&agent).filter(|memory| memory.id() == id) {
            return Ok(Arc::clone(memory));
        }
        let memory = ExtentFile::open(id)?;
        mapped.insert(agent, Arc::clone(&memory));
        Ok(memory)
    }

    /// The pin of an object of another process's store, which has granted it.
    pub(crate) fn pin(self: &Arc<Self>, agent: Peer, spot: ObjectSpot) -> Arc<ObjectPin> {
        let stores = Arc::clone(self);
        Arc::new(ObjectPin::new(spot, PinFrom::Agent { agent, stores }))
    }

    /// Seals an object that another process has filled in the store of this one; `None` if it has not borrowed its memory.
    pub(crate) fn seal(&self, by: Peer, object: StoreId) -> Option<HeldObject> {
        self.own()?.seal(by, object)
    }

    fn say(&self, to: Peer, message: &StoreMessage) -> Result<u64, PostError> {
        self.post
            .send(to, Letter::new(STORES, Class::Ordered, message, Body::EMPTY))
    }

    /// A letter has arrived.
    pub(crate) fn received(self: &Arc<Self>, from: Peer, letter: &Letter) {
        let message = match postcard::from_bytes(&letter.head) {
            Ok(message) => message,
            Err(error) => {
                let why = format!("it sent a letter about a store that cannot be read: {error}");
                return self.post.cut(from, why);
            }
        };
        match message {
            StoreMessage::Reserve { question, bytes } => self.reserve(from, question, bytes),
            StoreMessage::Lent { question, lent } => {
                let borrowed = self.borrowed(from, lent);
                self.answered(from, question, borrowed);
            }
            StoreMessage::Refused { question, error } => self.answered(from, question, Err(error)),
            StoreMessage::Abort { object } => self.own_event(StoreEvent::Abort { by: from, object }),
            StoreMessage::Close { object, grant } => {
                let by = from;
                self.own_event(StoreEvent::Close { by, object, grant });
            }
        }
    }

    /// An object that this process has filled, and of which the agent was not told, is not made.
    pub(crate) fn give_up(&self, agent: Peer, object: StoreId) {
        let sent = self.say(agent, &StoreMessage::Abort { object });
        self.post.told(agent, sent);
    }

    /// Another process has not been told of its view of an object.
    pub(crate) fn release(&self, by: Peer, spot: &ObjectSpot) {
        self.own_event(StoreEvent::Close {
            by,
            object: spot.object,
            grant: spot.grant,
        });
    }

    fn own_event(&self, event: StoreEvent) {
        if let Some(own) = self.own() {
            own.event(event);
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
            let sent = this.say(from, &message);
            this.post.told(from, sent);
        };
        match self.place() {
            Ok(StorePlace::Here(host)) => host.borrow_for(from, bytes, then),
            Ok(StorePlace::Agent(_) | StorePlace::Nowhere) => then(Err(StoreError::Gone)),
            Err(error) => then(Err(error)),
        }
    }

    /// The memory that another process has lent. It goes back if this process cannot map it.
    fn borrowed(&self, agent: Peer, lent: LentSpot) -> Result<Borrowed, StoreError> {
        let object = lent.object;
        match self.mapped(agent, &lent.memory) {
            Ok(memory) => {
                let post = Arc::clone(&self.post);
                let from = BorrowedFrom::Agent { agent, post, memory };
                Ok(Borrowed::new(lent, from))
            }
            Err(error) => {
                let sent = self.say(agent, &StoreMessage::Abort { object });
                self.post.told(agent, sent);
                Err(StoreError::Memory {
                    why: error.to_string(),
                })
            }
        }
    }

    fn answered(&self, from: Peer, question: u64, borrowed: Result<Borrowed, StoreError>) {
        let mut questions = self.questions.lock();
        let is_its = questions
            .open
            .get(&question)
            .is_some_and(|(agent, _)| *agent == from);
        let asked = if is_its {
            questions.open.remove(&question)
        } else {
            None
        };
        drop(questions);
        if let Some((_, promise)) = asked
            && let Some(waker) = promise.keep_unwoken(borrowed)
        {
            (self.wake)(waker);
        }
    }

    /// The process of a peer of this host has ended.
    pub(crate) fn ended(&self, peer: Peer) {
        self.own_event(StoreEvent::Ended(peer));
    }

    /// A peer is dead. Its process may still run.
    pub(crate) fn died(&self, peer: Peer) {
        self.own_event(StoreEvent::Dead(peer));
        let memory = self.mapped.lock().remove(&peer);
        drop(memory);
        let mut questions = self.questions.lock();
        let of_dead = questions.open.extract(|_, (agent, _)| *agent == peer);
        drop(questions);
        for (_, (_, promise)) in of_dead {
            if let Some(waker) = promise.keep_unwoken(Err(StoreError::Gone)) {
                (self.wake)(waker);
            }
        }
    }

    /// The process ends: whoever waits for the store waits no more.
    pub(crate) fn stop(&self) {
        let own = std::mem::replace(&mut *self.host.lock(), OwnStore::Closed);
        if let OwnStore::Open(own) = own {
            own.close();
        }
        let open = std::mem::take(&mut self.questions.lock().open);
        drop(open);
        let mapped = std::mem::take(&mut *self.mapped.lock());
        drop(mapped);
    }
}
