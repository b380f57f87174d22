//! The dialling of workers.

use std::sync::Arc;

use selvedge_cluster::handshake::{Cookie, Role};
use selvedge_cluster::net::{Link, LinkError, PeerInfo, Tcp, dial};
use selvedge_cluster::peer::Peer;

use super::identity::{COOKIE, identity};
use crate::hub::Hub;
use crate::hub::notice::Secret;
use crate::hub::post::Post;
use crate::platform::peer_socket::of_link;

/// The driver's way to a worker that says where it listens.
#[derive(Clone)]
pub(crate) struct Dialing {
    pub(super) cookie: Cookie,
}

impl Dialing {
    /// Makes the link to a new worker at an address, and names the worker `to`.
    ///
    /// # Errors
    /// [`LinkError`]: the worker cannot be reached, or the handshake fails.
    pub(crate) async fn link(&self, me: Peer, to: Peer, connect_at: &str) -> Result<Link, LinkError> {
        link(Role::Head, me, to, connect_at, self.cookie.clone()).await
    }
}

/// Makes the link from this worker to another one, of which the driver has told the place. If that fails, tells why.
pub(crate) fn dial_peer(
    hub: &Arc<Hub>,
    peer: Peer,
    connect_at: String,
    cookie: Option<Secret>,
    failed: impl Fn(String) + Send + 'static,
) {
    let cookie = cookie.and_then(|secret| Cookie::parse(str::from_utf8(&secret.0).ok()?));
    let cookie = cookie.or_else(|| COOKIE.get().cloned());
    let hub = Arc::clone(hub);
    let me = hub.me();
    let dialled = Arc::clone(&hub);
    let task = async move {
        let linked = match cookie {
            Some(cookie) => link(Role::Worker, me, peer, &connect_at, cookie)
                .await
                .map_err(|error| error.to_string()),
            None => Err("this process has no cookie".to_owned()),
        };
        let adopted = linked.and_then(|link| {
            let adopted = of_link(link).and_then(|(end, beyond)| dialled.adopt(peer, end, beyond));
            adopted.map_err(|error| error.to_string())
        });
        if let Err(why) = adopted {
            dialled.unreachable(peer, why.clone());
            failed(why);
        }
    };
    if !hub.spawn(Box::pin(task)) {
        hub.unreachable(
            peer,
            "this process cannot start the thread of its links".to_owned(),
        );
    }
}

async fn link(role: Role, me: Peer, to: Peer, connect_at: &str, cookie: Cookie) -> Result<Link, LinkError> {
    let place = PeerInfo {
        process: to.process,
        connect_at: connect_at.to_owned(),
    };
    let identity = identity(role, Some(me), Some(to), cookie);
    dial(&Tcp::loopback(), &place, &identity).await
}
