//! Streams through routers of zenoh, between processes of which none can dial the other.
//!
//! zenoh carries messages; streams are made of them here. The [README](https://github.com/selvedge-rs/selvedge/tree/main/cluster/src/net/zenoh)
//! of this folder has the invariants, and says what is believed of zenoh.

mod doubts;
mod ended;
mod error;
mod flow;
mod halves;
mod keeper;
mod node;
mod packet;
mod put;
mod router;
mod settings;
mod stream;
mod switchboard;
mod watches;

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::mpsc;

pub use error::ZenohError;
pub use router::ZenohRouter;
pub use settings::ZenohSettings;

use self::node::Node;
use self::packet::StreamPlace;
use super::transport::{Accepted, Acceptor, Halves, PeerInfo, Pending, Transport};

/// Streams through a router of zenoh: every process connects to the router alone, so two hosts behind NAT reach each other, and no process
/// but the router has a port.
///
/// A stream outlives a restart of the router that takes less than 30 s. The bytes that are on their way are limited for each stream, so
/// one that nobody reads stops its writer and no other stream. The router can read what it passes on; `Tls` over this transport hides it.
///
/// Clones share the session with the router, which the last one closes.
#[derive(Clone, Debug)]
pub struct Zenoh {
    node: Arc<Node>,
}

impl Zenoh {
    /// Opens a session with a router. Blocks until it is there: at most 10 s, and the time of one try more.
    ///
    /// # Errors
    /// [`ZenohError`].
    pub fn open(settings: &ZenohSettings) -> Result<Self, ZenohError> {
        let node = Arc::new(Node::open(settings)?);
        Ok(Zenoh { node })
    }

    async fn reach(&self, connect_at: &str) -> io::Result<Halves> {
        let listener = place(connect_at).ok_or_else(|| {
            let text = format!("`{connect_at}` is no place of a listener at a router");
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })?;
        let stream = self.node.switchboard().dial(listener)?;
        let halves = halves::begin(&self.node, Arc::clone(&stream))?;
        let dialling = Dialling(Some(halves));
        poll_fn(|cx| stream.poll_opened(cx)).await?;
        dialling.done()
    }

    fn open_listener(&self) -> io::Result<Box<dyn Acceptor>> {
        let (number, dialers) = self.node.switchboard().listen()?;
        Ok(Box::new(ZenohAcceptor {
            connect_at: format!("{}.{number:016x}", self.node.switchboard().me),
            number,
            node: Arc::clone(&self.node),
            dialers,
        }))
    }
}

/// A stream that is not open yet. Whoever gives up leaves nothing.
struct Dialling(Option<Halves>);

impl Dialling {
    fn done(mut self) -> io::Result<Halves> {
        self.0.take().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Drop for Dialling {
    fn drop(&mut self) {
        if let Some(cut) = self.0.as_mut().and_then(|halves| halves.cut.take()) {
            cut();
        }
    }
}

/// The place that the text of a listener names.
fn place(text: &str) -> Option<StreamPlace> {
    let (node, number) = text.split_once('.')?;
    let (node, number) = (node.parse().ok()?, u64::from_str_radix(number, 16).ok()?);
    Some(StreamPlace { node, number })
}

impl Transport for Zenoh {
    fn name(&self) -> &str {
        "zenoh"
    }

    fn connect<'a>(&'a self, to: &'a PeerInfo) -> Pending<'a, Halves> {
        Box::pin(self.reach(&to.connect_at))
    }

    fn listen(&self) -> Pending<'_, Box<dyn Acceptor>> {
        Box::pin(async { self.open_listener() })
    }
}

struct ZenohAcceptor {
    connect_at: String,
    number: u64,
    node: Arc<Node>,
    dialers: mpsc::Receiver<StreamPlace>,
}

impl Acceptor for ZenohAcceptor {
    fn connect_at(&self) -> &str {
        &self.connect_at
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        loop {
            let dialer = ready!(self.dialers.poll_recv(cx)).ok_or(io::ErrorKind::NotConnected)?;
            // One that has asked twice has its stream already, or has had it.
            if let Some(stream) = self.node.switchboard().accept(dialer)? {
                let from = format!("the process {} at the router", dialer.node);
                return Poll::Ready(
                    halves::begin(&self.node, stream).map(|halves| Accepted::new(halves, from)),
                );
            }
        }
    }
}

impl Drop for ZenohAcceptor {
    fn drop(&mut self) {
        self.node.switchboard().unlisten(self.number);
    }
}
