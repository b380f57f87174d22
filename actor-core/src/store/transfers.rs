//! Copies of objects on several hosts, as this process has to do with them: as their owner, as the agent of its host, or as both.
//!
//! Decisions are those of [`selvedge_objects::transfer`]. One thread makes all steps, in the order in which their causes came, and does
//! what they order: it reserves memory, writes chunks and computes checksums, so threads that read links do none of that. It starts
//! with the first object that has to do with another host.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, Weak};

use crossbeam_channel::{Receiver, Sender, unbounded};
use parking_lot::Mutex;
use selvedge_cluster::frame::Class;
use selvedge_cluster::peer::Peer;
use selvedge_objects::refs::RefId;
use selvedge_objects::store::{ListedObject, StoreError};
use selvedge_objects::transfer::{CopyAt, CopyName, TransferMessage};

use super::host_store::{HeldObject, HostStore};
use super::message::{FarObject, TRANSFERS};
use super::transfer_state::TransferState;
use crate::body::Body;
use crate::hub::post::{Letter, Post, PostError};
use crate::remote::threads::Threads;

/// Tells of a reference of this process that the object of this name, its value, has no copy any more.
pub(crate) type TellLostCopies = Box<dyn Fn(RefId, CopyName) + Send + Sync>;

type TransferWork = Box<dyn FnOnce(&Transfers, &mut TransferState) + Send>;

/// The queue of the thread.
enum TransferQueue {
    NotNeeded,
    Open(Sender<TransferWork>),
    Closed,
}

/// The transfers of a process.
pub(crate) struct Transfers {
    pub(super) post: Arc<dyn Post>,
    threads: Threads,
    /// The store of this process, which is made when it is needed.
    pub(super) host: Box<dyn Fn() -> Result<Arc<HostStore>, StoreError> + Send + Sync>,
    queue: Mutex<TransferQueue>,
    /// The work that waits where the system has no thread.
    pub(super) backlog: Mutex<VecDeque<TransferWork>>,
    state: Mutex<TransferState>,
    pub(super) on_lost: OnceLock<TellLostCopies>,
    pub(super) this: Weak<Transfers>,
}

impl Transfers {
    pub(super) fn new(
        post: Arc<dyn Post>,
        threads: &Threads,
        host: impl Fn() -> Result<Arc<HostStore>, StoreError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let me = post.me();
        let state = TransferState::new(me);
        Arc::new_cyclic(|this| Transfers {
            post,
            threads: threads.clone(),
            host: Box::new(host),
            queue: Mutex::new(TransferQueue::NotNeeded),
            backlog: Mutex::default(),
            state: Mutex::new(state),
            on_lost: OnceLock::new(),
            this: Weak::clone(this),
        })
    }

    /// Has the thread do something, after all that was ordered before. Once the process ends nothing is done any more, and who waits is
    /// told by the drop of what was to be done.
    pub(super) fn order(&self, work: impl FnOnce(&Transfers, &mut TransferState) + Send + 'static) {
        let mut queue = self.queue.lock();
        if let TransferQueue::NotNeeded = *queue {
            let (sender, receiver) = unbounded();
            let this = Weak::clone(&self.this);
            if self
                .threads
                .start("selvedge-transfers", move || run(&this, receiver))
                .is_err()
            {
                drop(queue);
                self.backlog.lock().push_back(Box::new(work));
                return self.work_off();
            }
            *queue = TransferQueue::Open(sender);
        }
        if let TransferQueue::Open(sender) = &*queue {
            let _ = sender.send(Box::new(work));
        }
    }

    /// Without a thread callers take the time: one of them at a time, also for what others have ordered. Whoever finds the state
    /// locked leaves its work here, so everybody who lets the state go calls this.
    pub(super) fn work_off(&self) {
        while !self.backlog.lock().is_empty()
            && let Some(mut state) = self.state.try_lock()
        {
            while let Some(work) = self.next_work() {
                work(self, &mut state);
            }
        }
    }

    fn next_work(&self) -> Option<TransferWork> {
        self.backlog.lock().pop_front()
    }

    fn is_needed(&self) -> bool {
        !matches!(*self.queue.lock(), TransferQueue::NotNeeded)
    }

    /// Sets who is told of an object of this process whose last copy is lost: [`Stores::on_lost`](super::stores::Stores::on_lost).
    pub(super) fn on_lost(&self, tell: TellLostCopies) {
        let _ = self.on_lost.set(tell);
    }

    /// The reference by which the program knows an object of this process that lies in the store of another host.
    pub(super) fn belongs_to(&self, name: CopyName, id: RefId) {
        self.order(move |transfers, state| {
            if state.list.bytes(name).is_some() {
                state.ids.or_default(name).insert(id);
                if state.list.copies(name).is_empty() {
                    state.lost(transfers, name);
                }
            }
        });
    }

    /// Other hosts may pull an object of this process, which is in its store.
    pub(super) fn enlist(&self, name: CopyName, held: Arc<HeldObject>) {
        self.order(move |transfers, state| {
            let owner = transfers.post.me();
            if let Some(at) = state.pulls.filled(name, owner) {
                let bytes = held.bytes();
                state.held.insert(name, held);
                let actions = state.list.list(name, bytes, None, Some(at));
                state.perform(transfers, actions);
            }
        });
    }

    /// An object of this process lies in the store of another host, or has died with it.
    pub(super) fn note(&self, far: FarObject, is_living: bool) {
        self.order(move |transfers, state| {
            let (bytes, checksum) = (far.facts.bytes, Some(far.facts.checksum));
            let at = is_living.then_some(far.at);
            let actions = state.list.list(far.name, bytes, checksum, at);
            state.perform(transfers, actions);
        });
    }

    /// The last reference to an object of this process is gone.
    pub(super) fn free(&self, name: CopyName) {
        self.order(move |transfers, state| {
            state.ids.remove(&name);
            let actions = state.list.free(name);
            state.perform(transfers, actions);
        });
    }

    /// Gets an object into the store of this process, if it is not there.
    pub(super) fn open(
        &self,
        name: CopyName,
        owner: Peer,
        then: impl FnOnce(Result<Arc<HeldObject>, StoreError>) + Send + 'static,
    ) {
        self.order(move |transfers, state| {
            state.requests += 1;
            let request = state.requests;
            state.askers.insert(request, Box::new(then));
            let actions = state.pulls.want(request, name, owner);
            state.perform(transfers, actions);
        });
    }

    /// An object was sealed in the store of this process that another process owns, or is about to.
    pub(super) fn file(
        &self,
        name: CopyName,
        owner: Peer,
        held: HeldObject,
        then: impl FnOnce(Option<CopyAt>) + Send + 'static,
    ) {
        self.order(move |_, state| {
            let at = state.pulls.filled(name, owner);
            if at.is_some() {
                state.held.insert(name, Arc::new(held));
            }
            then(at);
        });
    }

    /// The owner was not told of an object that a process has filled here.
    pub(super) fn abandon(&self, by: Peer, name: CopyName) {
        self.order(move |transfers, state| {
            let actions = state.pulls.abandon(by, name);
            state.perform(transfers, actions);
        });
    }

    /// A letter has arrived.
    pub(super) fn received(&self, from: Peer, letter: Letter) {
        let message = match postcard::from_bytes::<TransferMessage>(&letter.head) {
            Ok(message) => message,
            Err(error) => {
                let why = format!("it sent a letter about a copy that cannot be read: {error}");
                return self.post.cut(from, why);
            }
        };
        self.order(move |transfers, state| state.heard(transfers, from, message, letter.body));
    }

    /// A peer is dead.
    pub(super) fn died(&self, peer: Peer) {
        if self.is_needed() {
            self.order(move |transfers, state| state.bury(transfers, peer));
        }
    }

    /// The objects of this process that other hosts know, and the agents of the hosts that have a copy.
    pub(super) fn report(&self) -> Vec<ListedObject> {
        let state = self.state.lock();
        let listed = |name| ListedObject {
            object: state.held.get(&name).map(|held| held.object()),
            bytes: state.list.bytes(name).unwrap_or_default(),
            agents: state.list.copies(name).iter().map(|copy| copy.agent).collect(),
        };
        let report = state.list.names().map(listed).collect();
        drop(state);
        self.work_off();
        report
    }

    /// The process ends: whoever waits is refused, and the thread ends.
    pub(super) fn stop(&self) {
        if self.is_needed() {
            self.order(|_, state| {
                let askers = std::mem::take(&mut state.askers);
                askers.into_values().for_each(|then| then(Err(StoreError::Gone)));
                state.filling.clear();
                state.held.clear();
            });
        }
        let queue = std::mem::replace(&mut *self.queue.lock(), TransferQueue::Closed);
        drop(queue);
    }

    /// Sends a message.
    pub(super) fn send(&self, to: Peer, message: &TransferMessage, body: Body) -> Result<u64, PostError> {
        self.post
            .send(to, Letter::new(TRANSFERS, Class::Ordered, message, body))
    }
}

/// The thread: it ends with the queue.
fn run(transfers: &Weak<Transfers>, queue: Receiver<TransferWork>) {
    for work in queue {
        let Some(transfers) = transfers.upgrade() else {
            return;
        };
        work(&transfers, &mut transfers.state.lock());
        transfers.work_off();
    }
}

impl Transfers {
    /// A copy could not be read. One that is damaged is given up; one for which there is no room now stays.
    pub(super) fn unreadable(&self, name: CopyName, error: &StoreError) {
        if error.is_gone() {
            self.order(move |transfers, state| {
                let actions = state.pulls.unreadable(name);
                state.perform(transfers, actions);
            });
        }
    }
}
