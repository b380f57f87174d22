//! Streams that are carried by a pair of sockets.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// A stream that is no socket, and is carried by a pair of sockets: the way to abandon it. It belongs to the socket, and is dropped
/// with it: from then on, the stream has a second for the bytes that are still to be carried.
pub struct Carried(Arc<CarriedState>);

/// The words of the user of a carried stream to the task that carries it.
#[derive(Default)]
pub(crate) struct CarriedState {
    is_abandoned: AtomicBool,
    /// Notified when the user has dropped its side.
    dropped: Notify,
}

impl Carried {
    /// The side of the user, and what the task hears of it.
    #[allow(dead_code, reason = "only Linux carries streams")]
    pub(crate) fn new() -> (Self, Arc<CarriedState>) {
        let state = Arc::<CarriedState>::default();
        (Carried(Arc::clone(&state)), state)
    }

    /// Has the stream be cut when the socket is closed, where its transport can do so ([`Halves::cut`](super::Halves::cut)): the
    /// peer sees that the stream is lost, and not that it has ended. Call this before the socket is closed.
    pub fn abandon(&self) {
        // SYNC stream-abandoned, release side: pairs with the load in `is_abandoned`.
        self.0.is_abandoned.store(true, Ordering::Release);
    }
}

#[allow(dead_code, reason = "only Linux carries streams")]
impl CarriedState {
    /// Whether the user has abandoned the stream; asked after the user has closed its socket.
    pub(crate) fn is_abandoned(&self) -> bool {
        // SYNC stream-abandoned, acquire side: pairs with the store in `Carried::abandon`, which comes before the socket is closed.
        self.is_abandoned.load(Ordering::Acquire)
    }

    /// Waits until the user has dropped its side.
    pub(crate) async fn dropped(&self) {
        self.dropped.notified().await;
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        self.0.dropped.notify_one();
    }
}

impl fmt::Debug for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Carried(..)")
    }
}
