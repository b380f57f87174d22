//! The hub: the way from a process to every other process of its runtime, the same in the driver and in each worker.
//! Its services exchange letters; the hub knows nothing of their meaning.
//!
//! The [README](https://github.com/selvedge-rs/selvedge/tree/main/actor-core/src/hub) of this folder says who holds which
//! lock, who writes and reads, and how deaths are told.
//!
//! - `post`: letters, the way to other processes, and the receivers of letters: all that services see.
//! - `settings`, `link_end`: limits and times; the reasons for which a link ends.
//! - `wire`, `tap`: letters as frames, and the counts of frames.
//! - `queue`: the letters to a peer that wait, and the chunks of long ones.
//! - `link_state`, `peer_link`: a link: its state, its lock and socket; `write_turn`: the thread that writes.
//! - `read_turn`, `turn_reader`, `peer_stream`, `lead`, `lookout`, `link_task`: how a link is read, by the thread that leads or by the link's task.
//! - `far`, `connection`, `resume`: links between hosts, and how one goes on over another connection.
//! - `delivering`: the mark of the thread that calls a service.
//! - `posting`: the hub as services see it.
//! - `services`, `peer_table`: receivers by number, links by peer.
//! - `burial`: how the services of a process learn of a death.
//! - `notice`, `broker`, `membership`: who lives, and who is connected with whom, as the driver tells it.
//! - `driver`, `worker`: the two kinds of hub; `reactor`: the thread of a worker's links.
//! - `start`: the place where the services of a process are registered.

pub(crate) mod post;

mod link_end;
mod settings;

mod tap;
mod wire;

mod queue;

mod breaks;
mod link_state;
mod peer_link;

pub(crate) mod delivering;
pub(crate) mod lead;
mod letter_head;
mod link_task;
mod lookout;
mod peer_stream;
mod read_turn;
mod turn_reader;

#[cfg_attr(
    not(any(test, feature = "hosts")),
    expect(dead_code, reason = "only links between hosts go on over another connection")
)]
pub(crate) mod connection;
#[cfg(any(test, feature = "hosts"))]
mod far;
mod resume;

mod peer_table;
mod posting;
mod services;

mod burial;

pub(crate) mod broker;
pub(crate) mod membership;
pub(crate) mod notice;

mod driver;
pub(crate) mod reactor;
mod worker;
mod write_turn;

pub(crate) mod start;

#[cfg(test)]
mod mutant;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use selvedge_cluster::frame::Service;
use selvedge_cluster::peer::Peer;
use tokio::runtime::Handle;

use driver::DriverRole;
use lead::Lead;
use link_end::LinkEnd;
use link_task::LinkTask;
use peer_link::PeerLink;
use peer_stream::PeerStream;
use peer_table::{PeerStatus, PeerTable};
use post::{PostError, Receiver};
use services::Services;
pub(crate) use settings::LinkSettings;
pub use tap::{LinkTraffic, ServiceTraffic};
use worker::Ask;

use crate::boxed::boxed_task;
use crate::platform::peer_socket::{PeerEnd, PeerSocket, PeerSource, register};
use crate::process_end::EndBook;
use crate::process_name::NameBook;

/// The hub of a process.
pub(crate) struct Hub {
    myself: Weak<Hub>,
    me: Peer,
    settings: LinkSettings,
    role: Role,
    services: Arc<Services>,
    /// Held for look-ups only: never together with the lock of a link, nor while a service is called.
    table: Mutex<PeerTable>,
    /// The reactor whose thread runs the links' tasks.
    reactor: OnceLock<Handle>,
    /// Held while a worker starts its reactor.
    starting: Mutex<()>,
    lead: Arc<Lead>,
    /// The names of processes in errors, as the driver tells them.
    names: Arc<NameBook>,
    /// How the last ones that have died ended.
    ends: Arc<EndBook>,
}

enum Role {
    Driver(DriverRole),
    Worker(Ask),
}

impl Hub {
    fn new(me: Peer, role: Role, settings: LinkSettings) -> Arc<Self> {
        Arc::new_cyclic(|myself| Hub {
            myself: myself.clone(),
            me,
            settings,
            role,
            services: Arc::default(),
            table: Mutex::default(),
            reactor: OnceLock::new(),
            starting: Mutex::new(()),
            lead: Arc::default(),
            names: Arc::default(),
            ends: Arc::default(),
        })
    }

    /// Sets the time for which a thread looks for bytes before it sleeps; `None` lets the number of cores decide.
    pub(crate) fn set_spin(&self, spin: Option<Duration>) {
        self.lead.set_spin(spin);
    }

    /// Registers the receiver of a service. All services are registered before the first letter arrives.
    pub(crate) fn register(&self, service: Service, receiver: Arc<dyn Receiver>) {
        self.services.register(service, receiver);
    }

    #[cfg(test)]
    /// The reason that a peer counts as dead; `None` while it lives, and after a later incarnation of it has died.
    pub(crate) fn end_of(&self, peer: Peer) -> Option<LinkEnd> {
        self.table.lock().end_of(peer)
    }

    #[cfg(test)]
    /// The frames and bytes that the link to a peer has carried, by service. Empty for a peer without a link.
    pub(crate) fn traffic(&self, peer: Peer) -> Vec<(Service, ServiceTraffic)> {
        let known = self.table.lock().find(peer);
        match known {
            PeerStatus::Linked(link) => link.traffic(),
            PeerStatus::Dead | PeerStatus::Unknown => Vec::new(),
        }
    }

    /// Ends all links, because the runtime has ended, and forgets the services.
    pub(crate) fn close(&self) {
        self.close_for(&LinkEnd::Shutdown);
    }

    /// Ends all links of a job, because its head has ended.
    #[cfg(feature = "hosts")]
    pub(crate) fn close_without_head(&self) {
        self.close_for(&LinkEnd::Orphaned);
    }

    fn close_for(&self, why: &LinkEnd) {
        let links = self.table.lock().links();
        for link in links {
            link.close(why.clone());
            self.finish(&link, why.clone());
            self.announce(&link);
        }
        if let Role::Driver(driver) = &self.role {
            let couriers = driver.broker.lock().clear();
            drop(couriers);
        }
        self.services.clear();
    }

    /// Returns what is known about a peer that has joined. If nothing was, it is expected now.
    fn expect(&self, peer: Peer) -> PeerStatus {
        let known = self.hear(peer);
        self.table.lock().confirm(peer);
        known
    }

    /// Returns what is known about a peer that is alive according to somebody. If nothing was, it is expected now.
    fn hear(&self, peer: Peer) -> PeerStatus {
        let mut table = self.table.lock();
        if let known @ (PeerStatus::Linked(_) | PeerStatus::Dead) = table.find(peer) {
            return known;
        }
        let link = Arc::new(PeerLink::new(self.me, peer, self.settings));
        table.insert(Arc::clone(&link));
        table.note_rumour(peer);
        self.count_processes(&table);
        PeerStatus::Linked(link)
    }

    /// The link to a peer. The driver makes it if there is none yet.
    fn link(&self, to: Peer) -> Result<Arc<PeerLink>, PostError> {
        let known = match &self.role {
            _ if to == self.me => PeerStatus::Unknown,
            Role::Driver(_) => self.table.lock().find(to),
            // The notice that a process has joined may come later than its name, through another process.
            Role::Worker(_) => self.hear(to),
        };
        let link = match known {
            PeerStatus::Linked(link) => link,
            PeerStatus::Dead => return Err(PostError::Dead(to)),
            PeerStatus::Unknown => return Err(self.unknown(to)),
        };
        if let Role::Driver(driver) = &self.role
            && !link.is_made()
        {
            self.link_worker(driver, &link)?;
        }
        Ok(link)
    }

    /// The reason that a peer has no link. A member of the head's last life may come back.
    fn unknown(&self, peer: Peer) -> PostError {
        match &self.role {
            Role::Driver(driver) if driver.broker.lock().expects(peer) => PostError::Away(peer),
            _ => PostError::NoSuchPeer(peer.process),
        }
    }

    /// Counts the processes of this host: those to which no connection over a network was made.
    fn count_processes(&self, table: &PeerTable) {
        self.lead.set_processes(table.near() + 1);
    }

    /// Whether long letters from or to a peer have come further since the last call: a sign of life, behind which others may wait in the
    /// buffers of a slow network.
    pub(crate) fn has_progressed(&self, peer: Peer) -> bool {
        let known = self.table.lock().find(peer);
        matches!(known, PeerStatus::Linked(link) if link.take_progress())
    }

    /// Asks the driver for the link of a peer to which the first letter waits.
    fn ask(&self, link: &PeerLink) {
        if let Role::Worker(ask) = &self.role {
            ask(link.peer());
        }
    }

    /// Gives an end of a pair to the reactor.
    fn watch(&self, end: PeerEnd, reactor: &Handle) -> io::Result<(PeerSource, Arc<PeerSocket>)> {
        self.lead.poll()?;
        let (source, socket) = register(end, reactor)?;
        Ok((source, Arc::new(socket)))
    }

    /// Notes that a process, which may be this one, is a job: it takes no work.
    pub(crate) fn note_job(&self, job: Peer) {
        self.table.lock().note_job(job);
    }

    /// Begins to read a link, and starts its task.
    fn read(
        &self,
        link: &Arc<PeerLink>,
        source: PeerSource,
        socket: Arc<PeerSocket>,
        beyond: Vec<u8>,
        reactor: &Handle,
    ) {
        let Some(hub) = self.myself.upgrade() else { return };
        let on_end = Box::new(move |stream: &PeerStream, end| hub.connection_ended(stream, end));
        let services = Arc::clone(&self.services);
        let reader = PeerStream::in_turns(Arc::clone(link), socket, services, self.settings, beyond);
        let (listed, name) = self.lead.list(reader.clone());
        if let Err(error) = self.lead.poll().and_then(|poll| source.begin(poll, name)) {
            link.close(error.into());
        }
        reactor.spawn(boxed_task(LinkTask::new(reader, source, listed, on_end).run()));
    }

    /// Begins to end the link to a peer. Its reader ends it; without a reader it ends here.
    fn close_link(&self, peer: Peer, why: LinkEnd) {
        let known = self.table.lock().find(peer);
        if let PeerStatus::Linked(link) = known
            && link.close(why.clone())
        {
            self.finish(&link, why);
        }
    }
}
