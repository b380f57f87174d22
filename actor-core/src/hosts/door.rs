//! The door: the place where a driver listens for guests, which are workers that dial it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use selvedge_cluster::handshake::{Cookie, Role, Welcome};
use selvedge_cluster::id_map::IdMap;
use selvedge_cluster::net::{Arrival, Link, LinkError, Listener, TcpPort, Transport};
use selvedge_cluster::peer::Peer;
use tokio::sync::{Notify, mpsc, oneshot};

use super::identity::{identity, welcome};
use super::link_transport::LinkTransport;
use crate::BoxError;
use crate::hub::Hub;
use crate::hub::connection::Resume;
use crate::hub::post::Post;
use crate::platform::peer_socket::of_link;

/// The guests that wait at most until somebody wants one. One more sends away the one that has waited longest.
const WAITING_MAX: usize = 64;

/// The connections of a member that comes back which wait at most. One more is refused, and made again.
const BACK_MAX: usize = 4;

/// A port of the driver, and those who have come to it. The door is open as long as this value lives.
pub(crate) struct Door {
    port: TcpPort,
    state: Mutex<DoorState>,
    /// Notified when a guest waits.
    came: Notify,
}

#[derive(Default)]
struct DoorState {
    /// The hub that the door belongs to, once it is open. The drop of the sender closes the door.
    open: Option<(Weak<Hub>, oneshot::Sender<Infallible>)>,
    /// The guests that wait to be admitted, the oldest first.
    waiting: VecDeque<Arrival>,
    /// The guests that were admitted and may dial again.
    guests: Vec<Peer>,
    /// Begins to admit a job; `None` while none is let in.
    jobs: Option<LetIn>,
    /// Begins to admit a worker; `None` if workers wait until somebody wants one.
    workers: Option<LetIn>,
    /// The members of this head's last life that may come back, each with those that wait for it.
    away: IdMap<Peer, mpsc::Sender<Arrival>>,
    /// The last process that was refused, and why.
    refused: Option<String>,
}

/// Begins to admit a process that has come to a door.
pub(super) type LetIn = Arc<dyn Fn(Arc<Door>, Arrival) + Send + Sync>;

/// The reason that a door stays closed.
pub(super) enum DoorError {
    /// Another runtime has opened it.
    Used,
    /// The transport has no ports.
    NoPorts,
    /// The credentials of this process cannot be used.
    Keys(BoxError),
}

impl Door {
    pub(super) fn new(port: TcpPort) -> Self {
        Door {
            port,
            state: Mutex::default(),
            came: Notify::new(),
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// The last process that was refused, and why.
    pub(super) fn refused(&self) -> Option<String> {
        self.state.lock().refused.clone()
    }

    /// Opens the door, unless it is open. With `jobs`, jobs are let in from now on: those that have dialled already are heard at
    /// once.
    ///
    /// # Errors
    /// [`DoorError`].
    pub(super) fn open(
        self: &Arc<Self>,
        hub: &Arc<Hub>,
        cookie: Cookie,
        transport: &LinkTransport,
        jobs: Option<LetIn>,
    ) -> Result<(), DoorError> {
        let mut state = self.state.lock();
        if let Some((owner, _)) = &state.open {
            if !Weak::ptr_eq(owner, &Arc::downgrade(hub)) {
                return Err(DoorError::Used);
            }
            state.jobs = jobs.or_else(|| state.jobs.take());
            return Ok(());
        }
        let listener = transport.listener(self.port.clone()).map_err(DoorError::Keys)?;
        let listener = listener.ok_or(DoorError::NoPorts)?;
        let (open, closed) = oneshot::channel();
        let keeper = Keeper {
            door: Arc::downgrade(self),
            hub: Arc::downgrade(hub),
            me: hub.me(),
        };
        state.open = Some((Arc::downgrade(hub), open));
        state.jobs = jobs;
        drop(state);
        // Without a control thread, nobody waits at the door.
        hub.spawn(Box::pin(keeper.keep(listener, cookie, closed)));
        Ok(())
    }

    /// Lets workers in from now on, as they come.
    pub(super) fn let_workers_in(
        self: &Arc<Self>,
        let_in: impl Fn(Arc<Door>, Arrival) + Send + Sync + 'static,
    ) {
        let let_in = Arc::new(let_in);
        let waiting = {
            let mut state = self.state.lock();
            state.workers = Some(Arc::clone(&let_in) as LetIn);
            std::mem::take(&mut state.waiting)
        };
        for arrival in waiting {
            let_in(Arc::clone(self), arrival);
        }
    }

    /// Waits for a guest that wants to be admitted. Dropping the future loses nobody.
    pub(crate) async fn next(&self) -> Arrival {
        loop {
            let came = self.came.notified();
            if let Some(arrival) = self.state.lock().waiting.pop_front() {
                return arrival;
            }
            came.await;
        }
    }

    /// Admits a guest as `peer` with a note, and puts its connection under the link to it. Returns whether the connection is used.
    ///
    /// # Errors
    /// A text: the guest has gone.
    pub(crate) async fn admit(
        &self,
        hub: &Hub,
        arrival: Arrival,
        peer: Peer,
        note: Vec<u8>,
    ) -> Result<bool, String> {
        {
            let mut state = self.state.lock();
            state.guests.retain(|guest| !hub.is_buried(*guest));
            state.guests.push(peer);
        }
        let welcome = Welcome {
            note,
            ..welcome(hub.me(), peer)
        };
        let link = arrival.welcome(&welcome).await;
        adopted(hub, link.map_err(|error| error.to_string())?, peer)
    }

    /// Notes that a process was refused.
    pub(crate) fn note_refusal(&self, why: String) {
        self.state.lock().refused = Some(why);
    }

    /// A worker has come: begins to admit it, or has it wait until somebody wants one. Whoever begins to let workers in takes those
    /// that wait, so the choice is made under the lock.
    fn worker_came(self: &Arc<Self>, arrival: Arrival) {
        let crowded_out = {
            let mut state = self.state.lock();
            if let Some(let_in) = state.workers.clone() {
                drop(state);
                return let_in(Arc::clone(self), arrival);
            }
            state.waiting.push_back(arrival);
            let is_full = state.waiting.len() > WAITING_MAX;
            is_full.then(|| state.waiting.pop_front())
        };
        drop(crowded_out);
        self.came.notify_one();
    }

    /// Waits for a member of the head's last life, which may come back.
    pub(super) fn await_back(&self, peer: Peer) -> mpsc::Receiver<Arrival> {
        let (sender, back) = mpsc::channel(BACK_MAX);
        self.state.lock().away.insert(peer, sender);
        back
    }

    /// A member of the last life is there, or does not come any more.
    pub(super) fn end_wait(&self, peer: Peer) {
        self.state.lock().away.remove(&peer);
    }

    fn is_away(&self, peer: Peer) -> bool {
        self.state.lock().away.contains_key(&peer)
    }

    /// A member of the last life has come.
    fn comes_back(&self, arrival: Arrival, peer: Peer) {
        let waiting = self.state.lock().away.get(&peer).cloned();
        if let Some(waiting) = waiting {
            // A connection that is refused is made again.
            let _ = waiting.try_send(arrival);
        }
    }

    fn has_admitted(&self, peer: Peer) -> bool {
        self.state.lock().guests.contains(&peer)
    }
}

fn adopted(hub: &Hub, link: Link, peer: Peer) -> Result<bool, String> {
    let connection = of_link(link).map_err(|error| error.to_string())?;
    let adopted = hub.adopt(peer, connection, Resume::Waits);
    adopted.map_err(|error| error.to_string())
}

/// The task that hears the strangers at a door.
struct Keeper {
    door: Weak<Door>,
    hub: Weak<Hub>,
    me: Peer,
}

impl Keeper {
    /// Hears strangers until the door is closed.
    async fn keep(
        self,
        transport: Arc<dyn Transport>,
        cookie: Cookie,
        mut closed: oneshot::Receiver<Infallible>,
    ) {
        let identity = identity(Role::Head, Some(self.me), None, cookie);
        let mut listener = match Listener::bind(&*transport, identity).await {
            Ok(listener) => listener,
            Err(error) => return self.refuse(&error),
        };
        loop {
            let heard = tokio::select! {
                heard = listener.next() => heard,
                _ = &mut closed => return,
            };
            match heard {
                Ok(arrival) => self.hear(arrival),
                Err(error) => self.refuse(&error),
            }
        }
    }

    fn refuse(&self, error: &LinkError) {
        if let Some(door) = self.door.upgrade() {
            door.note_refusal(error.to_string());
        }
    }

    /// Takes a process that knows the cookie: a new guest, or one whose last connection has broken.
    fn hear(&self, arrival: Arrival) {
        let (Some(door), Some(hub)) = (self.door.upgrade(), self.hub.upgrade()) else {
            return;
        };
        let hello = arrival.hello();
        match (hello.role, hello.peer) {
            (Role::Worker | Role::Driver, Some(peer)) if hello.to.is_some_and(|to| to != self.me) => {
                // It looks for another life of this head.
                tokio::spawn(say_who_listens(arrival, self.me, peer));
            }
            (Role::Worker, Some(peer)) if hello.to.is_none() && door.is_away(peer) => {
                door.comes_back(arrival, peer);
            }
            (Role::Worker, None) => door.worker_came(arrival),
            (Role::Driver, None) => {
                let let_in = door.state.lock().jobs.clone();
                match let_in {
                    Some(let_in) => let_in(Arc::clone(&door), arrival),
                    None => door.note_refusal(format!("{}: no jobs are let in", arrival.name())),
                }
            }
            (Role::Worker | Role::Driver, Some(peer)) if door.has_admitted(peer) && !hub.is_buried(peer) => {
                let hub = Weak::clone(&self.hub);
                tokio::spawn(readmit(hub, arrival, peer));
            }
            (Role::Worker, Some(peer)) if hello.to.is_none() => {
                door.note_refusal(format!("{peer} from {}: it was no member", arrival.name()));
                // Else it would look for this head as long as it may.
                tokio::spawn(say_who_listens(arrival, self.me, self.me));
            }
            _ => door.note_refusal(format!(
                "{}: it is no worker or job of this runtime, or counts as dead",
                arrival.name()
            )),
        }
    }
}

/// Tells a process that looks for another life of this head who is here.
async fn say_who_listens(arrival: Arrival, me: Peer, you: Peer) {
    // It gives up in time if it does not hear this.
    let _ = arrival.welcome(&welcome(me, you)).await;
}

/// Puts another connection of a guest under the link to it. A guest without one dials again, until its time is over.
async fn readmit(hub: Weak<Hub>, arrival: Arrival, peer: Peer) {
    let Some(me) = hub.upgrade().map(|hub| hub.me()) else {
        return;
    };
    if let Ok(link) = arrival.welcome(&welcome(me, peer)).await
        && let Some(hub) = hub.upgrade()
        && !hub.is_buried(peer)
    {
        // An error leaves the link as it was, so its time runs out.
        let _ = adopted(&hub, link, peer);
    }
}

#[cfg(test)]
#[path = "door_tests.rs"]
mod door_tests;
