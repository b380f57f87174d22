//! Connections of links between hosts, and the ways to another one when one has broken.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::platform::peer_socket::PeerEnd;

/// A connection that was made, and the bytes that were read of it before.
pub(crate) type Connection = (PeerEnd, Vec<u8>);

/// The reason that there is no connection.
#[derive(Clone, Debug)]
pub(crate) enum NoConnection {
    /// The peer has ended: nobody listens at its place.
    Gone(String),
    /// The attempt has failed, and another one may not.
    Failed(String),
}

/// The way to dial a peer again.
pub(crate) trait Redial: Send + Sync {
    /// Makes another connection to the same incarnation.
    fn dial(&self) -> Pin<Box<dyn Future<Output = Result<Connection, NoConnection>> + Send + '_>>;
}

/// The way by which a link gets another connection.
#[derive(Clone)]
pub(crate) enum Resume {
    /// By dialling, which this side does.
    Dials(Arc<dyn Redial>),
    /// By waiting, because the peer dials.
    Waits,
}
