//! The work of the thread of transfers: decisions, and what they order.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use selvedge_cluster::id_map::{IdMap, IdSet};
use selvedge_cluster::peer::Peer;
use selvedge_objects::refs::RefId;
use selvedge_objects::store::StoreError;
use selvedge_objects::transfer::{
    CopyList, CopyName, Pulls, TransferAction, TransferMessage, TransferSettings,
};

use super::borrowed::{Borrowed, Sealed};
use super::host_store::HeldObject;
use super::transfers::Transfers;
use crate::body::Body;
use crate::hub::post::PostError;

/// A continuation for an object that is wanted. Runs no user code.
type ThenHeld = Box<dyn FnOnce(Result<Arc<HeldObject>, StoreError>) + Send>;

/// The state that the thread works on.
pub(super) struct TransferState {
    pub(super) list: CopyList,
    pub(super) pulls: Pulls,
    pub(super) held: IdMap<CopyName, Arc<HeldObject>>,
    /// The references to objects of this process that lie in stores of other hosts.
    pub(super) ids: IdMap<CopyName, IdSet<RefId>>,
    /// The memory of pulls, by their numbers: no two pulls have the same.
    pub(super) filling: IdMap<u64, Borrowed>,
    pub(super) askers: IdMap<u64, ThenHeld>,
    pub(super) requests: u64,
}

impl TransferState {
    pub(super) fn new(me: Peer) -> Self {
        TransferState {
            list: CopyList::new(me),
            pulls: Pulls::new(me, TransferSettings::default()),
            held: IdMap::new(),
            ids: IdMap::new(),
            filling: IdMap::new(),
            askers: IdMap::new(),
            requests: 0,
        }
    }

    pub(super) fn heard(&mut self, transfers: &Transfers, from: Peer, message: TransferMessage, body: Body) {
        match message {
            TransferMessage::Get {
                name,
                attempt,
                offset,
                bytes,
            } => self.give(transfers, from, (name, attempt), (offset, bytes)),
            TransferMessage::Chunk {
                name,
                attempt,
                offset,
            } => {
                self.chunk(transfers, from, (name, attempt), offset, &body);
            }
            message => {
                let mut actions = self.pulls.heard(from, &message);
                actions.extend(self.list.heard(from, &message));
                self.perform(transfers, actions);
            }
        }
    }

    pub(super) fn bury(&mut self, transfers: &Transfers, peer: Peer) {
        // The owner hears of a loss before those who wait for a pull are refused.
        let mut actions = self.list.bury(peer);
        actions.extend(self.pulls.bury(peer));
        self.perform(transfers, actions);
    }

    /// Sends a chunk of an object from the place where it lies: out of memory, where its pin ends when the chunk is sent, or out of the
    /// file of spilled objects. So a chunk waits for no memory, whoever fills it.
    fn give(
        &mut self,
        transfers: &Transfers,
        to: Peer,
        (name, attempt): (CopyName, u64),
        (offset, bytes): (u64, u64),
    ) {
        if bytes > TransferSettings::default().chunk_bytes {
            let why = "it asks for a longer chunk of an object than any is".to_owned();
            return transfers.post.cut(to, why);
        }
        let unread = TransferMessage::Unread { name, attempt };
        let Some(held) = self.held.get(&name) else {
            return transfers.post.told(to, transfers.send(to, &unread, Body::EMPTY));
        };
        let until = offset.checked_add(bytes).filter(|until| *until <= held.bytes());
        let part = until.and_then(|until| Some(usize::try_from(offset).ok()?..usize::try_from(until).ok()?));
        let Some(part) = part else {
            let why = "it asks for bytes beyond the end of an object".to_owned();
            return transfers.post.cut(to, why);
        };
        let this = Weak::clone(&transfers.this);
        held.read_part(part, move |part| {
            let Some(transfers) = this.upgrade() else { return };
            let (message, body) = match part {
                Ok(part) => (
                    TransferMessage::Chunk {
                        name,
                        attempt,
                        offset,
                    },
                    part.into(),
                ),
                Err(error) => {
                    transfers.unreadable(name, &error);
                    (unread, Body::EMPTY)
                }
            };
            let sent = transfers.send(to, &message, body);
            transfers.post.told(to, sent);
        });
    }

    fn chunk(
        &mut self,
        transfers: &Transfers,
        from: Peer,
        (name, attempt): (CopyName, u64),
        offset: u64,
        body: &Body,
    ) {
        let stretch = (offset, body.len() as u64);
        let Some(pull) = self.pulls.chunk(from, name, attempt, stretch) else {
            return;
        };
        let memory = self.filling.get_mut(&pull).ok_or(StoreError::Gone);
        let actions = match memory.and_then(|memory| memory.write_at(offset, body)) {
            Ok(checksum) => self.pulls.written(name, pull, stretch, checksum),
            Err(error) => self.pulls.unlent(name, pull, error),
        };
        self.perform(transfers, actions);
    }

    /// The last copy of an object of this process is lost.
    pub(super) fn lost(&self, transfers: &Transfers, name: CopyName) {
        if let (Some(tell), Some(ids)) = (transfers.on_lost.get(), self.ids.get(&name)) {
            ids.iter().for_each(|id| tell(*id, name));
        }
    }

    pub(super) fn perform(&mut self, transfers: &Transfers, actions: Vec<TransferAction>) {
        let mut actions = VecDeque::from(actions);
        while let Some(action) = actions.pop_front() {
            actions.extend(self.perform_one(transfers, action));
        }
    }

    /// Does what a step wants done. Returns what follows at once.
    fn perform_one(&mut self, transfers: &Transfers, action: TransferAction) -> Vec<TransferAction> {
        match action {
            TransferAction::Send { to, message } if to == transfers.post.me() => {
                let mut follows = self.pulls.heard(to, &message);
                follows.extend(self.list.heard(to, &message));
                return follows;
            }
            TransferAction::Send { to, message } => match transfers.send(to, &message, Body::EMPTY) {
                Err(PostError::Dead(_) | PostError::NoSuchPeer(_) | PostError::NoLink { .. }) => {
                    let mut follows = self.pulls.bury(to);
                    follows.extend(self.list.bury(to));
                    return follows;
                }
                sent => transfers.post.told(to, sent),
            },
            TransferAction::Cut { peer, why } => transfers.post.cut(peer, why.to_owned()),
            TransferAction::Measure { name } => return self.measure(transfers, name),
            TransferAction::Lost { name } => self.lost(transfers, name),
            TransferAction::Reserve { name, pull, bytes } => {
                return self.reserve(transfers, (name, pull), bytes);
            }
            TransferAction::Seal { name, pull } => {
                let sealed = self.filling.remove(&pull).and_then(Borrowed::seal);
                match sealed {
                    Some(Sealed::Here(held)) => drop(self.held.insert(name, Arc::new(held))),
                    // The store has been closed.
                    _ => return self.pulls.unreadable(name),
                }
            }
            TransferAction::Abort { pull, .. } => drop(self.filling.remove(&pull)),
            TransferAction::Drop { name } => drop(self.held.remove(&name)),
            TransferAction::Grant { request, name } => {
                let held = self.held.get(&name).cloned();
                if let Some(then) = self.askers.remove(&request) {
                    then(held.ok_or(StoreError::Gone));
                }
            }
            TransferAction::Refuse { request, error } => {
                if let Some(then) = self.askers.remove(&request) {
                    then(Err(error));
                }
            }
        }
        Vec::new()
    }

    /// Computes the checksum of an object that another host wants.
    fn measure(&mut self, transfers: &Transfers, name: CopyName) -> Vec<TransferAction> {
        let Some(held) = self.held.get(&name) else {
            return self.list.measured(name, Err(StoreError::Gone));
        };
        let this = Weak::clone(&transfers.this);
        held.read_here(move |object| {
            let Some(transfers) = this.upgrade() else { return };
            transfers.order(move |transfers, state| {
                let checksum = object.map(|object| crc32fast::hash(&object));
                let actions = state.list.measured(name, checksum);
                state.perform(transfers, actions);
            });
        });
        Vec::new()
    }

    /// Asks for memory for a pull. Its pages are reserved by this thread, when it comes to that.
    fn reserve(
        &mut self,
        transfers: &Transfers,
        (name, pull): (CopyName, u64),
        bytes: u64,
    ) -> Vec<TransferAction> {
        let host = match (transfers.host)() {
            Ok(host) => host,
            Err(error) => return self.pulls.unlent(name, pull, error),
        };
        let this = Weak::clone(&transfers.this);
        host.borrow_then(bytes, move |lent| {
            let Some(transfers) = this.upgrade() else { return };
            transfers.order(move |transfers, state| {
                let prepared = lent.and_then(|lent| lent.prepare().map(|()| lent));
                let actions = match prepared {
                    Ok(lent) => match state.pulls.lent(name, pull) {
                        Some(actions) => {
                            state.filling.insert(pull, lent);
                            actions
                        }
                        None => return,
                    },
                    Err(error) => state.pulls.unlent(name, pull, error),
                };
                state.perform(transfers, actions);
            });
        });
        Vec::new()
    }
}
