//! The hub of a worker, which learns from the driver who lives, and asks it for links.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::thread;

use selvedge_cluster::peer::Peer;
use tokio::runtime::{Builder, Handle};

use super::link_end::LinkEnd;
use super::notice::Notice;
use super::peer_table::PeerStatus;
use super::settings::LinkSettings;
use super::{Hub, Role};
use crate::platform::peer_socket::PeerEnd;

/// Asks the driver for a link to a peer.
pub(super) type Ask = Box<dyn Fn(Peer) + Send + Sync>;

impl Hub {
    /// The hub of worker `me`. `ask` asks the driver for a link to a peer.
    pub(crate) fn of_worker(
        me: Peer,
        driver: Peer,
        settings: LinkSettings,
        ask: impl Fn(Peer) + Send + Sync + 'static,
    ) -> Arc<Self> {
        let hub = Self::new(me, Role::Worker(Box::new(ask)), settings);
        hub.expect(driver);
        hub
    }

    /// Takes a notice of the driver, with the end of a pair that came with it.
    pub(crate) fn notice(&self, notice: Notice, end: Option<PeerEnd>) {
        match notice {
            Notice::Joined(peer) => {
                self.expect(peer);
            }
            Notice::Died(peer) => {
                // PeerStatus from now on, so that its death is announced even if no letter ever went there.
                self.expect(peer);
                self.close_link(peer, LinkEnd::Buried);
            }
            Notice::Linked(peer) => self.linked(peer, end),
            Notice::NotLinked(peer, why) => self.close_link(peer, LinkEnd::NoLink(why)),
        }
    }

    fn linked(&self, peer: Peer, end: Option<PeerEnd>) {
        let PeerStatus::Linked(link) = self.expect(peer) else {
            return;
        };
        let connected = match end {
            Some(end) => self.worker_reactor().and_then(|reactor| {
                let (source, socket) = self.watch(end, &reactor)?;
                Ok((link.connect(socket).then_some(source), reactor))
            }),
            None => Err(io::Error::other(
                "its descriptor did not arrive: are too many open?",
            )),
        };
        match connected {
            Ok((Some(source), reactor)) => self.read(&link, source, &reactor),
            // Another pair is in use, or the peer is about to be buried.
            Ok((None, _)) => {}
            Err(error) => self.close_link(peer, LinkEnd::NoLink(error.to_string())),
        }
    }

    /// The reactor that reads the links: a thread of its own, because the worker's main thread runs code of users that may
    /// take long. The thread starts with the first link or timer and ends with the process.
    pub(super) fn worker_reactor(&self) -> io::Result<Handle> {
        let _one_at_a_time = self.starting.lock();
        if let Some(reactor) = self.reactor.get() {
            return Ok(reactor.clone());
        }
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let reactor = runtime.handle().clone();
        thread::Builder::new()
            .name("selvedge-hub".to_owned())
            .spawn(move || runtime.block_on(pending::<()>()))?;
        Ok(self.reactor.get_or_init(|| reactor).clone())
    }
}
