//! Connections of links between hosts, and the ways to another one when one has broken.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use selvedge_cluster::frame::Joiner;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::body::BodyMemory;
use crate::platform::peer_socket::{PeerEnd, PeerSocket};

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

/// The connections of a link: the present one, the next one, and the message that has begun on one and ends on the other.
#[derive(Default)]
pub(super) struct Connections {
    /// The present socket.
    pub(super) socket: Option<Arc<PeerSocket>>,
    /// The connection that takes the place of the present one.
    pub(super) next: Option<Connection>,
    /// The long message that the last connection has left unfinished.
    pub(super) joiner: Option<Joiner<BodyMemory>>,
    /// The way to another connection, if the link outlives its own.
    pub(super) resume: Option<Resume>,
}

/// The end of a connection whose link goes on.
pub(super) struct BrokenLink {
    pub(super) connection: u64,
    /// The connections in a row that have broken before a frame arrived.
    pub(super) breaks: u32,
    /// Whether so many have, and for so long, that another one is no better.
    pub(super) is_futile: bool,
    pub(super) resume: Resume,
    /// The connection that the peer has made already.
    pub(super) next: Option<Connection>,
}

/// The time that a link may take to get a connection.
pub(crate) const DIAL_TIMEOUT: Duration = Duration::from_secs(5);

/// The pause before the second attempt; it doubles after each one. The first attempt follows at once, unless the connection before
/// has broken before a frame arrived: nobody listens at the place of a process that has been killed, which is known so.
const PAUSE: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Dials until there is a connection. `None` if it is not wanted any more. The first pause is the longer, the more connections
/// have broken in a row.
///
/// # Errors
/// A text: the peer has ended, or the time is over.
pub(crate) async fn dial_until(
    redial: &dyn Redial,
    breaks: u32,
    is_wanted: impl Fn() -> bool,
) -> Result<Option<Connection>, String> {
    let deadline = Instant::now() + DIAL_TIMEOUT;
    let mut pause = match breaks {
        0 | 1 => Duration::ZERO,
        breaks => PAUSE_MAX.min(PAUSE.saturating_mul(1 << breaks.min(16))),
    };
    let mut why = "nobody answers".to_owned();
    loop {
        if !pause.is_zero() {
            sleep_until(deadline.min(Instant::now() + pause)).await;
        }
        pause = PAUSE_MAX.min(PAUSE.max(pause * 2));
        if !is_wanted() {
            return Ok(None);
        }
        match timeout_at(deadline, redial.dial()).await {
            Ok(Ok(connection)) => return Ok(Some(connection)),
            Ok(Err(NoConnection::Gone(why))) => return Err(why),
            Ok(Err(NoConnection::Failed(failed))) => why = failed,
            Err(_) => return Err(why),
        }
    }
}
