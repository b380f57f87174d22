//! Streams in memory: the bridge to whatever carries messages and has no streams.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::duplex;
use tokio::sync::mpsc;

use super::transport::{Accepted, Acceptor, Halves, PeerInfo, Pending, Transport};

/// Streams that are made and not yet accepted, at one listener.
const WAITING_MAX: usize = 128;

/// Makes a stream in memory, and returns its two ends. Each direction holds so many bytes, at least 1, and a writer waits
/// while it is full.
///
/// A transport over messages returns one end from [`Transport::connect`] and keeps the other: it sends what it reads there
/// as messages, and writes there what messages bring.
///
/// ```
/// use selvedge_cluster::net::bridge;
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let (mut link, mut broker) = bridge(64 << 10);
/// link.writer.write_all(b"to the broker").await?;
/// drop(link.writer);
/// let mut message = Vec::new();
/// broker.reader.read_to_end(&mut message).await?;
/// assert_eq!(message, b"to the broker");
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
pub fn bridge(bytes: usize) -> (Halves, Halves) {
    // A pair for each direction, so that dropping a half ends its direction alone.
    let ((write_here, read_there), (write_there, read_here)) = (duplex(bytes.max(1)), duplex(bytes.max(1)));
    (
        Halves::new(read_here, write_here),
        Halves::new(read_there, write_there),
    )
}

/// A transport within one process, whose streams are [bridges](bridge). Clones reach each other's listeners.
#[derive(Clone, Debug)]
pub struct Bridge {
    bytes: usize,
    listeners: Arc<Mutex<Listeners>>,
}

#[derive(Debug, Default)]
struct Listeners {
    by_name: HashMap<String, mpsc::Sender<Halves>>,
    /// The number of listeners so far.
    count: u64,
}

impl Bridge {
    /// A transport whose streams hold so many bytes in each direction.
    pub fn new(bytes: usize) -> Self {
        Bridge {
            bytes,
            listeners: Arc::default(),
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut Listeners) -> T) -> T {
        change(&mut self.listeners.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn reach(&self, connect_at: &str) -> io::Result<Halves> {
        let listener = self.with(|listeners| listeners.by_name.get(connect_at).cloned());
        let listener = listener.ok_or(io::ErrorKind::ConnectionRefused)?;
        let (here, there) = bridge(self.bytes);
        let sent = listener.send(there).await;
        sent.map_err(|_| io::ErrorKind::ConnectionRefused)?;
        Ok(here)
    }

    fn open(&self) -> Box<dyn Acceptor> {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let connect_at = self.with(|listeners| {
            listeners.count += 1;
            let connect_at = listeners.count.to_string();
            listeners.by_name.insert(connect_at.clone(), sender);
            connect_at
        });
        Box::new(BridgeAcceptor {
            bridge: self.clone(),
            connect_at,
            receiver,
        })
    }
}

impl Transport for Bridge {
    fn name(&self) -> &str {
        "bridge"
    }

    fn connect<'a>(&'a self, to: &'a PeerInfo) -> Pending<'a, Halves> {
        Box::pin(self.reach(&to.connect_at))
    }

    fn listen(&self) -> Pending<'_, Box<dyn Acceptor>> {
        Box::pin(async { Ok(self.open()) })
    }
}

struct BridgeAcceptor {
    bridge: Bridge,
    connect_at: String,
    receiver: mpsc::Receiver<Halves>,
}

impl Acceptor for BridgeAcceptor {
    fn connect_at(&self) -> &str {
        &self.connect_at
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        // The table holds a sender as long as this listener lives.
        let halves = self.receiver.poll_recv(cx);
        halves.map(|halves| {
            let halves = halves.ok_or(io::ErrorKind::NotConnected)?;
            Ok(Accepted::new(halves, "this process"))
        })
    }
}

impl Drop for BridgeAcceptor {
    fn drop(&mut self) {
        self.bridge
            .with(|listeners| listeners.by_name.remove(&self.connect_at));
    }
}
