//! The store as a process sees it: its own, if it is the host agent, or that of the agent.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use selvedge_channels::SegmentError;
use selvedge_cluster::peer::{Peer, ProcessId};
use selvedge_objects::store::{StoreError, StoreEvent, StoreId, StoreReport, StoredObject};
use selvedge_objects::transfer::CopyName;

use super::agents::AgentTable;
use super::host_store::{HeldObject, HostStore, Wake};
use super::mappings::Mappings;
use super::message::{ObjectSpot, StoreMessage};
use super::options::StoreOptions;
use super::pin::{ObjectPin, PinFrom};
use super::questions::StoreQuestion;
use super::transfers::{TellLostCopies, Transfers};
use crate::hub::post::{Post, PostError};
use crate::promise::{Answer, Promise, promise_by_letter};
use crate::questions::Questions;
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
    pub(super) mappings: Arc<Mappings>,
    pub(super) questions: Mutex<Questions<StoreQuestion>>,
    pub(super) agents: Mutex<AgentTable>,
    transfers: Arc<Transfers>,
    /// The numbers of the objects to which this process has given names.
    names: AtomicU64,
    pub(super) this: Weak<Stores>,
}

enum OwnStore {
    NotNeeded,
    Open(Arc<HostStore>),
    Closed,
}

/// The place where this process puts large objects.
#[derive(Clone)]
pub(crate) enum StorePlace {
    /// Into its own store.
    Here(Arc<HostStore>),
    /// Into that of the host agent.
    Agent(Peer),
    /// Nowhere: processes share no memory, or the agent cannot be reached.
    Nowhere,
}

impl Stores {
    pub(crate) fn new(post: Arc<dyn Post>, threads: &Threads, wake: Wake) -> Arc<Self> {
        Arc::new_cyclic(|this| {
            let stores = Weak::<Stores>::clone(this);
            let host = move || stores.upgrade().ok_or(StoreError::Gone)?.own_store();
            Stores {
                transfers: Transfers::new(Arc::clone(&post), threads, host),
                mappings: Arc::new(Mappings::new(Arc::clone(&post))),
                post,
                threads: threads.clone(),
                wake,
                options: Mutex::default(),
                host: Mutex::new(OwnStore::NotNeeded),
                questions: Mutex::default(),
                agents: Mutex::default(),
                names: AtomicU64::new(0),
                this: Weak::clone(this),
            }
        })
    }

    pub(super) fn post(&self) -> &dyn Post {
        self.post.as_ref()
    }

    pub(super) fn shared_post(&self) -> Arc<dyn Post> {
        Arc::clone(&self.post)
    }

    pub(super) fn transfers(&self) -> &Transfers {
        &self.transfers
    }

    /// Sets who is told of a reference of this process whose value has no copy on any host any more. It must not run user code. Later
    /// calls have no effect.
    pub(crate) fn on_lost(&self, tell: TellLostCopies) {
        self.transfers.on_lost(tell);
    }

    /// Sets the sizes of the store, until it is made.
    pub(crate) fn set_options(&self, options: StoreOptions) {
        *self.options.lock() = options;
    }

    pub(super) fn options(&self) -> StoreOptions {
        self.options.lock().clone()
    }

    /// Whether a process lives, as far as this one knows.
    pub(super) fn is_living(&self, peer: Peer) -> bool {
        peer == self.post.me() || self.post.peer(peer.process) == Some(peer)
    }

    /// A name for an object that nobody has given a name.
    pub(super) fn next_name(&self) -> CopyName {
        CopyName {
            maker: self.post.me(),
            // Relaxed: the numbers only have to differ.
            number: self.names.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Whether the owner of what this process puts is on another host.
    pub(crate) fn is_far(&self) -> bool {
        let head = self.post.peer(ProcessId::HEAD);
        self.post.me().process != ProcessId::HEAD && !head.is_some_and(|head| self.post.is_near(head))
    }

    /// The place where this process puts large objects. The agent's store is made when it is needed first.
    pub(crate) fn place(&self) -> Answer<Result<StorePlace, StoreError>> {
        if let Some(known) = self.known_agent() {
            return Answer::ready(self.place_at(known));
        }
        let (promise, answer) = promise_by_letter(self.post.lead());
        let this = Weak::clone(&self.this);
        self.with_agent(move |agent| {
            if let Some(this) = this.upgrade() {
                this.keep(promise, this.place_at(agent));
            }
        });
        answer
    }

    fn place_at(&self, agent: Option<Peer>) -> Result<StorePlace, StoreError> {
        match agent {
            Some(agent) if agent == self.post.me() => match self.own_store() {
                Ok(own) => Ok(StorePlace::Here(own)),
                Err(StoreError::NoStore) => Ok(StorePlace::Nowhere),
                Err(error) => Err(error),
            },
            Some(agent) => Ok(StorePlace::Agent(agent)),
            None => Ok(StorePlace::Nowhere),
        }
    }

    /// The store of this process. It is made, if it is not there.
    ///
    /// # Errors
    /// [`StoreError::Memory`], [`StoreError::Gone`] once this process ends, [`StoreError::NoStore`].
    pub(super) fn own_store(&self) -> Result<Arc<HostStore>, StoreError> {
        let mut host = self.host.lock();
        match &*host {
            OwnStore::Open(open) => Ok(Arc::clone(open)),
            OwnStore::Closed => Err(StoreError::Gone),
            OwnStore::NotNeeded => {
                let (me, options) = (self.post.me(), self.options());
                let made = HostStore::create(me, &options, &self.threads, Arc::clone(&self.wake));
                let made = made.map_err(|error| match error {
                    SegmentError::Unsupported => StoreError::NoStore,
                    error => StoreError::Memory {
                        why: error.to_string(),
                    },
                })?;
                *host = OwnStore::Open(Arc::clone(&made));
                Ok(made)
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
        let mut report = self.own().map_or_else(StoreReport::default, |own| own.report());
        report.listed = self.transfers.report();
        report
    }

    /// The first objects of this process's store, and the number of those that are left.
    pub(crate) fn listed(&self, objects_max: usize) -> (Vec<StoredObject>, usize) {
        self.own()
            .map_or_else(Default::default, |own| own.listed(objects_max))
    }

    /// The pin of an object of another process's store, which has granted it.
    pub(crate) fn pin(&self, agent: Peer, spot: ObjectSpot) -> Arc<ObjectPin> {
        let mappings = Arc::clone(&self.mappings);
        Arc::new(ObjectPin::new(spot, PinFrom::Agent { agent, mappings }))
    }

    /// Seals an object that another process has filled in the store of this one; `None` if it has not borrowed its memory.
    pub(crate) fn seal(&self, by: Peer, object: StoreId) -> Option<HeldObject> {
        self.own()?.seal(by, object)
    }

    pub(super) fn say(&self, to: Peer, message: &StoreMessage) -> Result<u64, PostError> {
        self.post.send(to, message.letter())
    }

    /// Another process has not been told of its view of an object.
    pub(crate) fn release(&self, by: Peer, spot: &ObjectSpot) {
        self.own_event(StoreEvent::Close {
            by,
            object: spot.object,
            grant: spot.grant,
        });
    }

    pub(super) fn own_event(&self, event: StoreEvent) {
        if let Some(own) = self.own() {
            own.event(event);
        }
    }

    /// Keeps a promise, on a thread that must not run user code.
    pub(super) fn keep<T>(&self, promise: Promise<T>, answer: T) {
        if let Some(waker) = promise.keep_unwoken(answer) {
            (self.wake)(waker);
        }
    }

    /// The process of a peer of this host has ended.
    pub(crate) fn ended(&self, peer: Peer) {
        // Of one that is reached over a network only the kernel knows.
        if !self.is_watched(peer) {
            self.own_event(StoreEvent::Ended(peer));
        }
    }

    /// A peer is dead. Its process may still run.
    pub(crate) fn died(&self, peer: Peer) {
        self.user_died(peer);
        self.agent_died(peer);
        self.transfers.died(peer);
        self.mappings.forget(peer);
        self.ask_others(peer);
    }

    /// The process ends: whoever waits for the store waits no more.
    pub(crate) fn stop(&self) {
        self.transfers.stop();
        let own = std::mem::replace(&mut *self.host.lock(), OwnStore::Closed);
        if let OwnStore::Open(own) = own {
            own.close();
        }
        self.end_questions();
        self.mappings.clear();
    }
}
