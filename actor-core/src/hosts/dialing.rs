//! The dialling of workers.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use selvedge_cluster::handshake::{Cookie, Role};
use selvedge_cluster::manager::WorkerPlace;
use selvedge_cluster::net::{Link, LinkCause, LinkError, PeerInfo, Uds, dial};
use selvedge_cluster::peer::Peer;

use super::identity::{MEANS, Means, identity};
use super::keys::Keys;
use super::link_transport::LinkTransport;
use super::tunnelling::{Tunnelling, entry};
use crate::hub::Hub;
use crate::hub::connection::{Connection, NoConnection, Redial, Resume, dial_until};
use crate::hub::notice::Secret;
use crate::hub::post::Post;
use crate::platform::peer_socket::of_link;
use crate::topology::Names;

/// The driver's way to a worker that says where it listens.
#[derive(Clone)]
pub(crate) struct Dialing {
    pub(super) cookie: Cookie,
    pub(super) transport: LinkTransport,
    /// The way to the worker's port, if it is not open.
    pub(crate) tunnelling: Option<Tunnelling>,
    /// The worker's names in a custom topology.
    pub(crate) names: Names,
}

impl Dialing {
    /// The way to a new worker at a place, through the tunnel that begins in this directory if there is one. The worker gets
    /// the name `to` when it is dialled.
    ///
    /// # Errors
    /// A text: the credentials of this process cannot be used.
    pub(crate) fn to(
        &self,
        me: Peer,
        to: Peer,
        place: &WorkerPlace,
        through: Option<&Uds>,
    ) -> Result<PlaceOfPeer, String> {
        let transport = self.transport.dialer(through);
        Ok(PlaceOfPeer {
            role: Role::Head,
            me,
            to,
            connect_at: through.map_or_else(|| place.to_string(), entry),
            means: Means {
                cookie: self.cookie.clone(),
                transport: transport.map_err(|error| error.to_string())?,
            },
            _tunnel: through.cloned(),
        })
    }
}

/// The place where one incarnation of a process listens, and the means to dial it.
pub(crate) struct PlaceOfPeer {
    role: Role,
    me: Peer,
    to: Peer,
    connect_at: String,
    means: Means,
    /// The directory of the tunnel to it, which lasts as long as somebody may dial.
    _tunnel: Option<Uds>,
}

impl PlaceOfPeer {
    /// The place where the driver listens for this worker or job, which it has admitted as `me`.
    pub(super) fn of_driver(role: Role, me: Peer, driver: Peer, connect_at: String, means: Means) -> Self {
        PlaceOfPeer {
            role,
            me,
            to: driver,
            connect_at,
            means,
            _tunnel: None,
        }
    }

    /// Makes a link to the worker.
    async fn link(&self) -> Result<Link, LinkError> {
        let place = PeerInfo {
            process: self.to.process,
            connect_at: self.connect_at.clone(),
        };
        let Means { cookie, transport } = &self.means;
        let identity = identity(self.role, Some(self.me), Some(self.to), cookie.clone());
        dial(&**transport, &place, &identity).await
    }

    /// Dials the worker, and puts the connection under the link to it. Returns whether the connection is used: not if the worker
    /// is dead.
    ///
    /// # Errors
    /// A text: the worker cannot be reached, or the handshake fails.
    pub(crate) async fn connect(self, hub: &Hub) -> Result<bool, String> {
        let connection = self.link().await;
        let connection = connection.map_err(|error| explained(&error, &self.connect_at))?;
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
                } => NoConnection::Gone(explained(&error, &self.connect_at)),
                _ => NoConnection::Failed(explained(&error, &self.connect_at)),
            })?;
            if link.welcome.me != self.to {
                return Err(NoConnection::Gone(format!(
                    "{} listens at its place",
                    link.welcome.me
                )));
            }
            of_link(link).map_err(|error| NoConnection::Failed(error.to_string()))
        })
    }
}

/// The means by which this worker dials others: the keys that came with the driver's notice, or those that it was started with.
///
/// # Errors
/// A text: there is no way to another worker.
pub(crate) fn means_with(keys: Option<Secret>) -> Result<Means, String> {
    match (keys, MEANS.get()) {
        (Some(keys), _) => Keys::of(&keys),
        (None, Some(means)) => Ok(means.clone()),
        (None, None) => Err("this process has no cookie".to_owned()),
    }
}

/// Makes the link from this process to another one, of which the driver has told the place. If that fails, tells why.
pub(crate) fn dial_peer(
    hub: &Arc<Hub>,
    peer: Peer,
    connect_at: String,
    means: Result<Means, String>,
    failed: impl Fn(String) + Send + Sync + 'static,
) {
    let means = match means {
        Ok(means) => means,
        Err(why) => return hub.not_dialled(peer, why, failed),
    };
    let failed = Arc::new(failed);
    let tell = Arc::clone(&failed);
    let place = PlaceOfPeer {
        role: if hub.is_job(hub.me()) {
            Role::Driver
        } else {
            Role::Worker
        },
        me: hub.me(),
        to: peer,
        connect_at,
        means,
        _tunnel: None,
    };
    let dialling = Arc::clone(hub);
    let task = async move {
        let dialled = dial_until(&place, 0, || dialling.has_to_dial(peer)).await;
        let adopted = dialled.and_then(|connection| match connection {
            Some(connection) => place.adopted(&dialling, connection),
            None => Ok(false),
        });
        if let Err(why) = adopted {
            dialling.not_dialled(peer, why, &*tell);
        }
    };
    if !hub.spawn(Box::pin(task)) {
        let why = "this process cannot start the thread of its links".to_owned();
        hub.not_dialled(peer, why, &*failed);
    }
}

/// The text of an error, which says so if the place that was dialled is one that only its own host reaches.
fn explained(error: &LinkError, connect_at: &str) -> String {
    let address = connect_at.parse::<SocketAddr>();
    let is_unreachable = matches!(error.cause, LinkCause::Unreachable { .. });
    match is_unreachable && address.is_ok_and(|address| address.ip().is_loopback()) {
        true => format!(
            "{error} (help: it listens on the loopback interface, which other hosts do not reach; start it with another address: \
             `LocalManager::bind`, `WorkerCommand::bind`, or the second word of the machine's line)"
        ),
        false => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use selvedge_cluster::net::Tcp;

    use super::*;
    use crate::testing::peer;

    #[test]
    fn jnet_03_an_address_that_only_its_own_host_reaches_is_named_as_such() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let place = free.local_addr().unwrap().to_string();
        drop(free);
        let way = PlaceOfPeer {
            role: Role::Worker,
            me: peer(1),
            to: peer(1),
            connect_at: place.clone(),
            means: Means {
                cookie: Cookie::new([7; 32]),
                transport: Arc::new(Tcp::loopback()),
            },
            _tunnel: None,
        };
        let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let error = reactor.unwrap().block_on(way.link()).unwrap_err();
        assert!(explained(&error, &place).contains("the loopback interface"));
        assert_eq!(explained(&error, "10.0.0.7:4711"), error.to_string());
    }
}
