//! Streams that are carried by a pair of sockets.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A stream that is no socket, and is carried by a pair of sockets: the way to abandon it.
#[derive(Clone)]
pub struct Carried(pub(crate) Arc<AtomicBool>);

impl Carried {
    /// Has the stream be cut when the socket is closed, where its transport can do so ([`Halves::cut`](super::Halves::cut)): the
    /// peer sees that the stream is lost, and not that it has ended. Call this before the socket is closed.
    pub fn abandon(&self) {
        // SYNC stream-abandoned, release side: pairs with the load of the task that carries the stream.
        self.0.store(true, Ordering::Release);
    }
}

impl fmt::Debug for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Carried(..)")
    }
}
