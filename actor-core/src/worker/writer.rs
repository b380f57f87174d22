//! The words of a worker on their way to its driver.

use std::io::Write;
#[cfg(feature = "hosts")]
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
#[cfg(feature = "hosts")]
use selvedge_cluster::peer::ProcessId;

#[cfg(feature = "hosts")]
use crate::hub::post::{Post, PostError};
use crate::platform::link::{Stream, is_closed_descriptor};
use crate::worker::exit::refuse;
use crate::worker::protocol::{FrameError, FromWorker, frame_front};

/// The message of a worker whose own code has closed its link.
pub(super) const CLOSED: &str = "code of this process has closed the descriptor of the link to its driver; \
                                 close only descriptors that you have opened";

/// The sending half of the link, shared by all lanes.
pub(crate) enum Writer {
    /// The driver is on this host, at the other end of a socket pair.
    Socket(Mutex<Stream>),
    /// The driver is on another host.
    #[cfg(feature = "hosts")]
    Letters { post: Arc<dyn Post> },
}

impl Writer {
    /// Sends a message without a body.
    pub(crate) fn send(&self, message: &FromWorker) {
        // The message always fits into a frame, because its texts are cut.
        let _ = self.send_with(message, &Bytes::new());
    }

    /// Sends a message with a body; returns an error if it does not fit into a frame.
    pub(crate) fn send_with(&self, message: &FromWorker, body: &Bytes) -> Result<(), FrameError> {
        match self {
            Writer::Socket(socket) => {
                let front = frame_front(message, body)?;
                let mut socket = socket.lock();
                let written = socket.write_all(&front).and_then(|()| socket.write_all(body));
                if written.is_err_and(|error| is_closed_descriptor(&error)) {
                    // The main thread may sleep in its read for ever, and the driver would learn nothing of this process.
                    refuse(CLOSED);
                }
                // Any other write error means that the driver is gone; the main thread sees that too and ends the process.
                Ok(())
            }
            #[cfg(feature = "hosts")]
            Writer::Letters { post } => {
                // Between two lives of the driver, nobody waits for words.
                let Some(driver) = post.peer(ProcessId::HEAD) else {
                    return Ok(());
                };
                let head = postcard::to_stdvec(message)?;
                let is_sign_of_life = matches!(message, FromWorker::Pong);
                let word = super::letters::letter(is_sign_of_life, &head, body.clone());
                match post.send(driver, word) {
                    // An answer for which there is no room fails alone.
                    Err(error @ (PostError::TooLarge { .. } | PostError::Full { .. }))
                        if !body.is_empty() =>
                    {
                        Err(FrameError::NotSent(error.to_string()))
                    }
                    sent => {
                        post.told(driver, sent);
                        Ok(())
                    }
                }
            }
        }
    }
}
