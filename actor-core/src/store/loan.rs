//! Memory that another process's store has lent to this one.

use std::sync::Arc;

use selvedge_cluster::peer::Peer;
use selvedge_objects::store::StoreId;

use super::message::StoreMessage;
use crate::hub::post::Post;

/// Memory that the store of another process, its agent, has lent for an object. The drop gives it back, unless the agent was told whose
/// object it is.
pub(crate) struct StoreLoan {
    agent: Peer,
    object: StoreId,
    /// The way to the agent; `None` once it was told.
    post: Option<Arc<dyn Post>>,
}

impl StoreLoan {
    pub(super) fn new(agent: Peer, object: StoreId, post: Arc<dyn Post>) -> Self {
        let post = Some(post);
        StoreLoan { agent, object, post }
    }

    pub(crate) fn agent(&self) -> Peer {
        self.agent
    }

    pub(crate) fn object(&self) -> StoreId {
        self.object
    }

    /// The agent was told whose object it is, and seals it.
    pub(crate) fn told(mut self) {
        self.post = None;
    }
}

impl Drop for StoreLoan {
    fn drop(&mut self) {
        let Some(post) = self.post.take() else { return };
        let object = self.object;
        let sent = post.send(self.agent, StoreMessage::Abort { object }.letter());
        post.told(self.agent, sent);
    }
}
