//! The end of a link, which its senders, its reader and its writer share.

use std::io;
use std::sync::Arc;

use tokio::sync::{Semaphore, watch};

use crate::net::error::{LinkCause, LinkError};

/// The end of a link, and the room in the queue of its frames, which the end closes.
#[derive(Clone, Debug)]
pub(super) struct SharedEnd {
    name: Arc<str>,
    cause: Arc<watch::Sender<Option<LinkCause>>>,
    /// A permit for each byte.
    pub(super) room: Arc<Semaphore>,
}

impl SharedEnd {
    pub(super) fn new(name: Arc<str>, bytes: u32) -> Self {
        SharedEnd {
            name,
            cause: Arc::new(watch::Sender::new(None)),
            room: Arc::new(Semaphore::new(bytes as usize)),
        }
    }

    /// Ends the link, and wakes everybody who waits. The first cause counts, and is returned.
    pub(super) fn end(&self, cause: LinkCause) -> LinkError {
        self.cause.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert(cause);
            is_first
        });
        self.room.close();
        self.error()
    }

    /// Ends the link because its transport has failed.
    pub(super) fn lost(&self, error: &io::Error) -> LinkError {
        self.end(LinkCause::lost(error))
    }

    /// The error of the link, once it has ended.
    pub(super) fn error(&self) -> LinkError {
        let cause = self.cause.borrow().clone();
        cause.unwrap_or(LinkCause::Closed).of(&self.name)
    }

    /// Waits for the end.
    pub(super) async fn ended(&self) -> LinkError {
        let mut cause = self.cause.subscribe();
        // An error would say that the sender is gone, and `self` has it.
        let _ = cause.wait_for(Option::is_some).await;
        self.error()
    }
}
