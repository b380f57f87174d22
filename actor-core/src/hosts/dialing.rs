//! The dialling of workers.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use selvedge_cluster::handshake::{Cookie, Role};
use selvedge_cluster::net::{Link, LinkCause, LinkError, PeerInfo, Tcp, dial};
use selvedge_cluster::peer::Peer;

use super::identity::{COOKIE, identity};
use crate::hub::Hub;
use crate::hub::connection::{Connection, NoConnection, Redial, Resume, dial_until};
use crate::hub::notice::Secret;
use crate::hub::post::Post;
use crate::platform::peer_socket::of_link;

/// The driver's way to a worker that says where it listens.
#[derive(Clone)]
pub(crate) struct Dialing {
    pub(super) cookie: Cookie,
}

impl Dialing {
    /// The way to a new worker, which gets the name `to` when it is dialled.
    pub(crate) fn to(&self, me: Peer, to: Peer, connect_at: String) -> PlaceOfPeer {
        PlaceOfPeer {
            role: Role::Head,
            me,
            to,
            connect_at,
            cookie: self.cookie.clone(),
        }
    }
}

/// The place where one incarnation of a worker listens, and the means to dial it.
pub(crate) struct PlaceOfPeer {
    role: Role,
    me: Peer,
    to: Peer,
    connect_at: String,
    cookie: Cookie,
}

impl PlaceOfPeer {
    /// Makes a link to the worker.
    async fn link(&self) -> Result<Link, LinkError> {
        let place = PeerInfo {
            process: self.to.process,
            connect_at: self.connect_at.clone(),
        };
        let identity = identity(self.role, Some(self.me), Some(self.to), self.cookie.clone());
        // The interface of a transport is for listening; it dials any address.
        dial(&Tcp::loopback(), &place, &identity).await
    }

    /// Dials the worker, and puts the connection under the link to it. Returns whether the connection is used: not if the worker
    /// is dead.
    ///
    /// # Errors
    /// A text: the worker cannot be reached, or the handshake fails.
    pub(crate) async fn connect(self, hub: &Hub) -> Result<bool, String> {
        let connection = self.link().await.map_err(|error| error.to_string())?;
        let connection = of_link(connection).map_err(|error| error.to_string())?;
        self.adopted(hub, connection)
    }

    /// Puts a connection under the link to the worker.
    fn adopted(self, hub: &Hub, connection: Connection) -> Result<bool, String> {
        let adopted = hub.adopt(self.to, connection, Resume::Dials(Arc::new(self)));
        adopted.map_err(|error| error.to_string())
    }
}

impl Redial for PlaceOfPeer {
    fn dial(&self) -> Pin<Box<dyn Future<Output = Result<Connection, NoConnection>> + Send + '_>> {
        Box::pin(async {
            let link = self.link().await.map_err(|error| match &error.cause {
                // The host is there, and nobody listens: the process has ended.
                LinkCause::Unreachable {
                    kind: io::ErrorKind::ConnectionRefused,
                    ..
                } => NoConnection::Gone(error.to_string()),
                _ => NoConnection::Failed(error.to_string()),
            })?;
            of_link(link).map_err(|error| NoConnection::Failed(error.to_string()))
        })
    }
}

/// Makes the link from this worker to another one, of which the driver has told the place. If that fails, tells why.
pub(crate) fn dial_peer(
    hub: &Arc<Hub>,
    peer: Peer,
    connect_at: String,
    cookie: Option<Secret>,
    failed: impl Fn(String) + Send + Sync + 'static,
) {
    let failed = Arc::new(failed);
    let tell = Arc::clone(&failed);
    let cookie = cookie.and_then(|secret| Cookie::parse(str::from_utf8(&secret.0).ok()?));
    let cookie = match cookie.or_else(|| COOKIE.get().cloned()) {
        Some(cookie) => cookie,
        None => {
            let why = "this process has no cookie".to_owned();
            hub.unreachable(peer, why.clone());
            return failed(why);
        }
    };
    let place = PlaceOfPeer {
        role: Role::Worker,
        me: hub.me(),
        to: peer,
        connect_at,
        cookie,
    };
    let dialling = Arc::clone(hub);
    let task = async move {
        let dialled = dial_until(&place, 0, || !dialling.is_buried(peer)).await;
        let adopted = dialled.and_then(|connection| match connection {
            Some(connection) => place.adopted(&dialling, connection),
            None => Ok(false),
        });
        if let Err(why) = adopted {
            dialling.unreachable(peer, why.clone());
            tell(why);
        }
    };
    if !hub.spawn(Box::pin(task)) {
        let why = "this process cannot start the thread of its links".to_owned();
        hub.unreachable(peer, why.clone());
        failed(why);
    }
}
