//! The hub of the driver, which decides who lives and makes all pairs.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use selvedge_cluster::peer::{Incarnation, Peer, ProcessId};
use tokio::runtime::Handle;

use super::broker::{Broker, Courier, JoinsAs, News};
use super::link_end::LinkEnd;
use super::membership::letter;
use super::notice::Notice;
#[cfg(feature = "hosts")]
use super::notice::Secret;
use super::peer_link::PeerLink;
use super::peer_table::PeerStatus;
use super::post::{Post, PostError};
use super::settings::LinkSettings;
use super::{Hub, Role};
use crate::boxed::boxed_task;
#[cfg(feature = "hosts")]
use crate::death::Exit;
use crate::platform::peer_socket::pair;
use crate::process_end::ProcessEnd;
use crate::topology::Station;
#[cfg(feature = "hosts")]
use crate::topology::Topology;

/// The time that a worker which has closed its link may take to report the reason and to end.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_secs(1);

/// The part of a hub that only the driver's has.
#[derive(Default)]
pub(super) struct DriverRole {
    pub(super) broker: Mutex<Broker>,
    /// Held while the driver's own link to a worker is made, so that the two do not end up with different pairs.
    linking: Mutex<()>,
}

impl Hub {
    #[cfg(test)]
    /// The hub of a driver in its first life.
    pub(crate) fn of_driver(settings: LinkSettings) -> Arc<Self> {
        Self::of_life(Incarnation(1), settings)
    }

    /// The hub of a driver in this life of it. It costs nothing until a worker joins.
    pub(crate) fn of_life(incarnation: Incarnation, settings: LinkSettings) -> Arc<Self> {
        let me = Peer {
            process: ProcessId::HEAD,
            incarnation,
        };
        Self::new(me, Role::Driver(DriverRole::default()), settings)
    }

    /// Sets the reactor that reads the links: in the driver, that of the control thread.
    pub(crate) fn set_reactor(&self, reactor: Handle) {
        // A runtime has one control thread, so the first value is the only one.
        let _ = self.reactor.set(reactor);
    }

    /// A worker has said hello, and letters reach it from now on. Other workers dial it at its station, or get ends of pairs.
    pub(crate) fn joined(&self, peer: Peer, courier: Arc<dyn Courier>, station: Option<Station>) {
        self.join(peer, courier, station, JoinsAs::Worker);
    }

    /// A job has said hello, and letters reach it from now on. It takes no work.
    #[cfg(feature = "hosts")]
    pub(crate) fn job_joined(&self, job: Peer, courier: Arc<dyn Courier>, station: Option<Station>) {
        self.note_job(job);
        self.join(job, courier, station, JoinsAs::Job);
    }

    fn join(&self, peer: Peer, courier: Arc<dyn Courier>, station: Option<Station>, joins_as: JoinsAs) {
        let Role::Driver(driver) = &self.role else {
            return;
        };
        if let Some(name) = courier.name() {
            self.names.note(name);
        }
        let joined = driver.broker.lock().join(peer, courier, station, joins_as);
        self.expect(peer);
        for news in joined.all_news {
            self.tell(driver, news);
        }
        driver.broker.lock().link_joined(peer, &joined.wanted);
        self.services.joined(peer);
    }

    /// Tells a member that a process has joined: before all letters that are sent to it from now on.
    fn tell(&self, driver: &DriverRole, news: News) {
        let News { to, courier, notice } = news;
        let link = match self.table.lock().find(to) {
            PeerStatus::Linked(link) => link,
            PeerStatus::Dead => return,
            // It joins at this moment, and has no link before.
            PeerStatus::Unknown => return courier.tell(notice, None),
        };
        {
            let _nobody_links_meanwhile = driver.linking.lock();
            if !link.is_made() {
                return courier.tell(notice, None);
            }
        }
        self.told(to, self.send(to, letter(&notice)));
    }

    /// Notes that this process is only a head, and takes no work. The members of its last life that are `away` may come back; its new ones have numbers from `first` on.
    #[cfg(feature = "hosts")]
    pub(crate) fn note_only_head(&self, first: u32, away: Vec<Peer>) {
        self.note_job(self.me);
        if let Role::Driver(driver) = &self.role {
            driver.broker.lock().begin(self.me, first, away);
        }
    }

    /// A member of the head's last life does not come back.
    #[cfg(feature = "hosts")]
    pub(crate) fn stayed_away(&self, peer: Peer) {
        let why = "it has not come back to its head in time (help: HeadOptions::grace sets this time)";
        let end = ProcessEnd::of(Exit::Fenced(why.to_owned()));
        if let Role::Driver(driver) = &self.role {
            driver.broker.lock().stayed_away(peer, &end);
        }
        self.buried(peer, end);
    }

    /// Sets the keys that workers of this host get when they have to dial others.
    #[cfg(feature = "hosts")]
    pub(crate) fn set_keys(&self, keys: Secret) {
        if let Role::Driver(driver) = &self.role {
            driver.broker.lock().set_keys(keys);
        }
    }

    /// Sets which workers have links with each other, before the first one that is dialled joins.
    #[cfg(feature = "hosts")]
    pub(crate) fn set_topology(&self, topology: Topology) {
        if let Role::Driver(driver) = &self.role {
            driver.broker.lock().set_topology(topology);
        }
    }

    /// A worker could not make the link to another one.
    pub(crate) fn not_linked(&self, from: Peer, about: Peer, why: String) {
        if let Role::Driver(driver) = &self.role {
            driver.broker.lock().not_linked(from, about, why);
        }
    }

    /// A worker was told to end: calls that name no process go to others from now on.
    pub(crate) fn leaves(&self, peer: Peer) {
        if let Role::Driver(driver) = &self.role {
            self.table.lock().note_leaving(peer);
            driver.broker.lock().leaves(peer);
            self.services.leaves(peer);
        }
    }

    /// The process of a worker is dead, by this end. The other workers are told; the services of this process are told when the last
    /// letter is delivered.
    pub(crate) fn buried(&self, peer: Peer, end: ProcessEnd) {
        if let Role::Driver(driver) = &self.role {
            let courier = driver.broker.lock().bury(peer, &end);
            drop(courier);
            self.ends.told(peer, end);
            self.bury(peer);
            self.services.ended(peer);
        }
    }

    /// A worker asks for a link to a peer.
    pub(crate) fn asked(&self, from: Peer, about: Peer) {
        let Role::Driver(driver) = &self.role else {
            return;
        };
        if about != self.me {
            return driver.broker.lock().connect(from, about);
        }
        let link = match self.table.lock().find(from) {
            PeerStatus::Linked(link) => link,
            PeerStatus::Dead | PeerStatus::Unknown => return,
        };
        if let Err(error) = self.link_worker(driver, &link)
            && let Some(courier) = driver.broker.lock().courier(from)
        {
            courier.tell(Notice::NotLinked(about, error.to_string()), None);
        }
    }

    /// Makes the link to a worker, unless it is there.
    pub(super) fn link_worker(&self, driver: &DriverRole, link: &Arc<PeerLink>) -> Result<(), PostError> {
        let peer = link.peer();
        let failed = |why: String| PostError::NoLink { peer, why };
        let no_reactor = || failed("the runtime has no control thread".to_owned());
        let reactor = self.reactor.get().ok_or_else(no_reactor)?;
        let source = {
            let _one_at_a_time = driver.linking.lock();
            if link.is_made() {
                return Ok(());
            }
            let courier = driver.broker.lock().courier(peer).cloned();
            let courier = courier.ok_or(PostError::Dead(peer))?;
            let (ours, theirs) = pair().map_err(|error| failed(error.to_string()))?;
            let registered = self.watch(ours, reactor);
            let (source, socket) = registered.map_err(|error| failed(error.to_string()))?;
            courier.tell(Notice::Linked(self.me), Some(theirs));
            link.connect(&socket).then_some((source, socket))
        };
        if let Some((source, socket)) = source {
            self.read(link, source, socket, Vec::new(), reactor);
        }
        Ok(())
    }

    /// Ensures that a worker whose link has ended does not live on: everybody else counts it as dead.
    pub(super) fn fence(&self, driver: &DriverRole, peer: Peer, why: &LinkEnd) {
        let courier = driver.broker.lock().courier(peer).cloned();
        let Some(courier) = courier else { return };
        if why.is_severed() {
            return courier.kill(&why.to_string());
        }
        if let (LinkEnd::Closed | LinkEnd::Reset, Some(reactor)) = (why, self.reactor.get()) {
            reactor.spawn(boxed_task(kill_late(self.myself.clone(), peer, why.to_string())));
        }
    }
}

/// Kills a worker that has closed its link and is still there after a while.
async fn kill_late(hub: Weak<Hub>, peer: Peer, why: String) {
    tokio::time::sleep(LAST_WORDS_TIMEOUT).await;
    let Some(hub) = hub.upgrade() else { return };
    if let Role::Driver(driver) = &hub.role
        && let Some(courier) = driver.broker.lock().courier(peer)
    {
        courier.kill(&why);
    }
}
