//! A node: the side of this process at its router, one session of zenoh.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;

use ::zenoh::Session;
use ::zenoh::key_expr::KeyExpr;

use super::error::ZenohError;
use super::keeper::keep;
use super::packet::NodeId;
use super::put::put;
use super::settings::ZenohSettings;
use super::switchboard::Switchboard;
use crate::net::random;

/// The session, and the streams over it. The last handle closes the session, which takes its keeper a moment.
pub(super) struct Node {
    switchboard: Arc<Switchboard>,
    /// Taken when the node is dropped.
    session: Option<Session>,
    prefix: String,
}

impl Node {
    /// Opens the session, which takes at most 10 s, and the time of one try more.
    ///
    /// # Errors
    /// [`ZenohError`].
    pub(super) fn open(settings: &ZenohSettings) -> Result<Self, ZenohError> {
        let prefix = settings.prefix()?;
        settings.config()?;
        let me = random::bytes().map_err(|error| ZenohError::system(&error))?;
        let switchboard = Arc::new(Switchboard::new(NodeId(u128::from_le_bytes(me))));
        let (sender, opened) = sync_channel(1);
        let (lines, settings) = (Arc::clone(&switchboard), settings.clone());
        // What blocks in zenoh may not be called by a thread of a runtime.
        let keeper = thread::Builder::new().name("selvedge-zenoh".into());
        let keeper = keeper.spawn(move || keep(&lines, &settings, &sender));
        keeper.map_err(|error| ZenohError::system(&error))?;
        // The keeper has a deadline, and its end is the end of the channel.
        let session = opened.recv().unwrap_or_else(|_| {
            let text = "the session's thread has ended".to_owned();
            Err(ZenohError::System { text })
        })?;
        Ok(Node {
            switchboard,
            session: Some(session),
            prefix,
        })
    }

    pub(super) fn switchboard(&self) -> &Switchboard {
        &self.switchboard
    }

    /// The key of a node.
    pub(super) fn key(&self, node: NodeId) -> Option<KeyExpr<'static>> {
        KeyExpr::new(format!("{}/{node}", self.prefix)).ok()
    }

    /// Sends a packet, or drops it: nothing is waited for.
    pub(super) fn send(&self, to: &Option<KeyExpr<'static>>, packet: Vec<u8>, is_short: bool) {
        if let (Some(session), Some(key)) = (&self.session, to) {
            put(session, key.clone(), packet, is_short);
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.switchboard.close(self.session.take());
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({}/{})", self.prefix, self.switchboard.me)
    }
}
