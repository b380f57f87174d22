//! Links that outlive their connection: a link between hosts goes on over another connection when its own has broken. The
//! session sends again what was not acknowledged, so no letter is lost or doubled.
//!
//! One side dials again, for as long as a new connection may take; the other one waits that long. If nobody listens at the
//! peer's place any more, the peer has died. A peer that is reported dead meanwhile is dead at once.

use std::io;
use std::sync::{Arc, Weak};

use super::Hub;
use super::connection::{Connection, DIAL_TIMEOUT, Redial, Resume, dial_until};
use super::link_end::LinkEnd;
use super::peer_link::PeerLink;
use super::peer_stream::PeerStream;
use crate::boxed::boxed_task;
use crate::platform::peer_socket::PeerEnd;

impl Hub {
    /// The connection of a link has ended. The link goes on over another one, or ends too.
    pub(super) fn connection_ended(&self, stream: &PeerStream, why: LinkEnd) {
        let link = stream.link();
        if link.is_resumable() && why.is_of_connection() {
            // Before another thread can begin to read the next connection.
            stream.hand_over();
        }
        let Some(broken) = link.disconnect(&why) else {
            return self.finish(link, why);
        };
        if let Some(next) = broken.next {
            return self.go_on(link, next);
        }
        let (hub, waiting) = (self.myself.clone(), Arc::clone(link));
        match (broken.resume, self.reactor.get()) {
            _ if broken.is_futile => self.lost(link, "each new connection breaks before a frame arrives"),
            (Resume::Dials(redial), Some(reactor)) => {
                drop(reactor.spawn(boxed_task(dial_again(
                    hub,
                    waiting,
                    redial,
                    broken.connection,
                    broken.breaks,
                ))));
            }
            (Resume::Waits, Some(reactor)) => {
                drop(reactor.spawn(boxed_task(wait_for_peer(hub, waiting, broken.connection))));
            }
            (_, None) => self.finish(link, why),
        }
    }

    /// Puts another connection under a link.
    fn go_on(&self, link: &Arc<PeerLink>, (end, beyond): Connection) {
        if let Err(error) = self.connect(link, end, beyond) {
            self.lost(link, &error.to_string());
        }
    }

    /// Ends a link that gets no other connection.
    fn lost(&self, link: &Arc<PeerLink>, why: &str) {
        let end = LinkEnd::Lost(why.to_owned());
        link.close(end.clone());
        self.finish(link, end);
    }

    /// Gives an end to the reactor and the link, and begins to read. Returns whether the end is used: not if the link has
    /// another one, or has ended.
    pub(super) fn connect(&self, link: &Arc<PeerLink>, end: PeerEnd, beyond: Vec<u8>) -> io::Result<bool> {
        let reactor = self.reactor.get().ok_or(io::ErrorKind::NotConnected)?;
        let (source, socket) = self.watch(end, reactor)?;
        let is_used = link.connect(&socket);
        match is_used {
            true => self.read(link, source, socket, beyond, reactor),
            false => socket.abandon(),
        }
        Ok(is_used)
    }
}

/// Dials until there is a connection, the peer has ended, or the time is over.
async fn dial_again(
    hub: Weak<Hub>,
    link: Arc<PeerLink>,
    redial: Arc<dyn Redial>,
    connection: u64,
    breaks: u32,
) {
    let is_still_broken = || link.is_broken() && link.connection() == connection;
    let dialled = dial_until(&*redial, breaks, is_still_broken).await;
    let Some(hub) = hub.upgrade() else { return };
    match dialled {
        Ok(Some(connection)) => hub.go_on(&link, connection),
        Ok(None) => {}
        Err(why) if is_still_broken() => hub.lost(&link, &why),
        // The peer has dialled meanwhile.
        Err(_) => {}
    }
}

/// Waits until the peer has dialled, or the time is over.
async fn wait_for_peer(hub: Weak<Hub>, link: Arc<PeerLink>, connection: u64) {
    // The peer may have noticed later than this process.
    tokio::time::sleep(DIAL_TIMEOUT + DIAL_TIMEOUT / 5).await;
    if let Some(hub) = hub.upgrade()
        && link.is_broken()
        && link.connection() == connection
    {
        hub.lost(&link, "the peer has not connected again");
    }
}
